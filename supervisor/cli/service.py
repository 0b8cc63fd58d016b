"""`run`, `shutdown`, `check` and `version`: the daemon itself and its configuration.

What only one of them needs is imported there: nothing may hold up the daemon.
"""

import gc
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from supervisor import __version__
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.core.printable import paragraphs
from supervisor.errors import BAD_CONFIG, DONE, BadConfig, SupervisorError, TimedOut

if TYPE_CHECKING:
    from supervisor.core.agents import Names
    from supervisor.daemon import Options as DaemonOptions

LONGEST_STOP = 15.0
"""Seconds that a daemon takes to stop at most, its servers' grace included."""
CHECK_PATIENCE = 5.0


def _declare_run(parser: Parser) -> None:
    parser.add_argument(
        "--config", action="append", default=[], metavar="PATH", help="config file; repeatable"
    )
    parser.add_argument("--log-format", choices=("text", "json"), help="form of the log lines (text)")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop", help="event loop (uvloop)")


def run(options: Options) -> int:
    """Be the daemon; `supervisor.__main__` has held back the signals that it heeds."""
    gc.disable()  # nothing that is loaded now is garbage; the daemon enables it again once it has settled
    from supervisor.daemon import serve

    return serve(for_daemon(options))


def for_daemon(options: Options) -> "DaemonOptions":
    """What was asked for, as the daemon takes it."""
    from supervisor.daemon import Options as DaemonOptions

    return DaemonOptions(
        config=tuple(options.config),
        socket=options.socket,
        log_format=options.log_format or ("json" if options.json else "text"),
        log_level=options.log_level,
        loop=options.loop,
    )


def shut_down(options: Options) -> int:
    """Ask the daemon to stop and wait until it has.

    Raises:
        TimedOut: it is still there.
    """
    from supervisor.surfaces.client import SyncClient

    with SyncClient(options.socket) as client:
        answer = client.request("supervisor/shutdown")
        if not client.wait_closed(timeout=LONGEST_STOP):
            raise TimedOut(
                f"cannot see the daemon end within {LONGEST_STOP:g} s; "
                "a server with a long stopGrace may hold it, see its log"
            )
    print(json.dumps(answer) if options.json else "the daemon has stopped")
    return DONE


def _declare_check(parser: Parser) -> None:
    parser.add_argument("rest", nargs="*", metavar="FILE", help="config files, instead of the usual ones")


def check(options: Options) -> int:
    """Print the configuration as the daemon would use it, and what is wrong with it.

    Raises:
        BadConfig: a file that was named is not there.
    """
    from pathlib import Path

    from supervisor.core.check import lines, report
    from supervisor.runtime.configfile import config_paths, load

    for file in options.rest:
        if not Path(file).exists():
            raise BadConfig(f"cannot check {file}: there is no such file")
    loaded = load(config_paths(options.rest, os.environ), os.environ)
    found = report(loaded, names=_names(options.socket) if loaded.agents else None)
    print(json.dumps(found, indent=2) if options.json else paragraphs("\n".join(lines(found))))
    return DONE if found["ok"] else BAD_CONFIG


def _names(path: str | None) -> "Names | None":
    """The names of all tools, those that cannot be called included; None when nobody knows them all now."""
    from supervisor.core.agents import Names
    from supervisor.surfaces.client import SyncClient

    with suppress(SupervisorError), SyncClient(path) as client:
        answer = client.request("tools/list", {"all": True}, timeout=CHECK_PATIENCE)
        if answer["complete"]:
            present = {tool["name"] for tool in (*answer["tools"], *answer["leftOut"])}
            return Names({*present, *answer["former"]}, tuple(answer["unlisted"]))
    return None


def show_version(options: Options) -> int:
    """Print the version of this program; the daemon is not asked."""
    import platform

    versions = {"version": __version__, "python": platform.python_version()}
    if options.json:
        print(json.dumps(versions))
    else:
        print(f"mcp-supervisor {__version__} (Python {versions['python']})")
    return DONE


RUN = Verb(
    "run",
    "run the daemon in the foreground",
    """\
  mcp-supervisor run
  mcp-supervisor run --config ~/mcp.json --log-level debug
  mcp-supervisor run --config site.json --config mine.json   (mine shadows site)
""",
    run,
    _declare_run,
)
SHUTDOWN = Verb(
    "shutdown",
    "stop the daemon and all its servers, and wait until they are gone",
    "  mcp-supervisor shutdown\n",
    shut_down,
)
CHECK = Verb(
    "check",
    "check the configuration and show what the daemon makes of it, without secrets",
    """\
  mcp-supervisor check
  mcp-supervisor check mcp.json && mcp-supervisor reload
Where a daemon runs, it names the tools of agents that no server has.
""",
    check,
    _declare_check,
    takes_more=True,
)
VERSION = Verb(
    "version", "print the version of this program", "  mcp-supervisor version --json\n", show_version
)
