"""What an entry of the configuration means for its server's lifecycle, for its runs and for its calls."""

import math

from supervisor.core.framing import Framing
from supervisor.core.phases import Policy
from supervisor.core.restart import RestartPolicy
from supervisor.core.servers import BadServer, ServerSpec
from supervisor.core.spec import StdioEntry
from supervisor.runtime.admission import Terms
from supervisor.runtime.conversation import Dialect

HEALTHY_AFTER = 60.0
"""Seconds for which a process has to be ready before its earlier failures are forgotten."""
CONNECTED_AFTER = 1.0
"""The same for a remote: it was restarted, perhaps, but it is not ours that crashes. Less is flapping."""


def terms_of(spec: ServerSpec | BadServer) -> Terms:
    """What the desk needs of an entry."""
    if isinstance(spec, BadServer):
        return Terms()
    entry = spec.entry
    room = math.inf if entry.max_concurrency is None else entry.max_concurrency
    return Terms(entry.call_timeout, entry.max_call_time, room, entry.max_queue)


def policy_of(spec: ServerSpec | BadServer) -> Policy:
    """What the lifecycle needs of an entry."""
    if isinstance(spec, BadServer):
        return Policy()
    entry = spec.entry
    restart = RestartPolicy(
        mode=entry.restart.policy,
        delay=entry.restart.delay,
        max_delay=entry.restart.max_delay,
        max_failures=entry.restart.max_failures,
        window=entry.restart.window,
        healthy_after=HEALTHY_AFTER if isinstance(entry, StdioEntry) else CONNECTED_AFTER,
    )
    return Policy(
        restart=restart,
        start_timeout=entry.start_timeout,
        stop_grace=entry.stop_grace,
        lazy=entry.start == "lazy",
        idle_timeout=entry.idle_timeout,
    )


def dialect_of(spec: ServerSpec, max_line_bytes: int) -> Dialect:
    """How a run talks with its server."""
    entry = spec.entry
    framing: Framing = entry.framing if isinstance(entry, StdioEntry) else "newline"
    roots = None if spec.roots is None else tuple(root.value for root in spec.roots)
    return Dialect(entry.protocol, framing, max_line_bytes, roots=roots)
