"""How many files the daemon may have open.

A stdio server takes four descriptors and a client one. The soft limit that a shell hands out, 1 024 as a
rule, is there for programs that use `select`; whoever does not may take what the hard limit allows.
"""

import contextlib
import resource

MOST = 65_536
"""As in the unit; more would only be dear to the children, which inherit it."""


def raise_open_files(most: int = MOST) -> None:
    """Take as many descriptors as we may have, up to `most`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError):  # a sandbox may forbid it; the old limit then stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
