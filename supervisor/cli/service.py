"""`run`, `shutdown`, `check` and `version`: the daemon itself and its configuration."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from supervisor import __version__
from supervisor.cli.connection import PROMPTLY
from supervisor.core.printable import paragraphs
from supervisor.errors import BAD_CONFIG, DONE, BadConfig, TimedOut
from supervisor.surfaces.client import SyncClient

LONGEST_STOP = 15.0
"""Seconds that a daemon takes to stop at most, its servers' grace included."""


def shut_down(client: SyncClient, *, as_json: bool) -> int:
    """Ask the daemon to stop and wait until it has.

    Raises:
        TimedOut: it is still there.
    """
    answer = client.request("supervisor/shutdown", timeout=PROMPTLY)
    if not client.wait_closed(timeout=LONGEST_STOP):
        raise TimedOut(
            f"cannot see the daemon end within {LONGEST_STOP:g} s; "
            "a server with a long stopGrace may hold it, see its log"
        )
    print(json.dumps(answer) if as_json else "the daemon has stopped")
    return DONE


def check(files: Sequence[str], *, as_json: bool) -> int:
    """Print the configuration as the daemon would use it, and what is wrong with it.

    Raises:
        BadConfig: a file that was named is not there.
    """
    from supervisor.core.check import lines, report
    from supervisor.runtime.configfile import config_paths, load

    for file in files:
        if not Path(file).exists():
            raise BadConfig(f"cannot check {file}: there is no such file")
    found = report(load(config_paths(files, os.environ), os.environ))
    print(json.dumps(found, indent=2) if as_json else paragraphs("\n".join(lines(found))))
    return DONE if found["ok"] else BAD_CONFIG


def show_version(*, as_json: bool) -> int:
    """Print the version of this program; the daemon is not asked."""
    versions = {"version": __version__, "python": platform.python_version()}
    print(json.dumps(versions) if as_json else f"mcp-supervisor {__version__} (Python {versions['python']})")
    return DONE
