"""The grammar of the command line: verbs, options, and help with examples.

Owns how words become a command to run; what a command does is in the module of its verb.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from supervisor import __version__
from supervisor.cli.arguments import read_words
from supervisor.cli.call import Call, call_tool
from supervisor.cli.connection import connect
from supervisor.cli.failures import Usage
from supervisor.cli.service import check, show_version, shut_down
from supervisor.cli.status import show_fleet, show_server
from supervisor.cli.tools import show_tools
from supervisor.core.printable import one_line

Command = Callable[[], int]
Options = argparse.Namespace

DESCRIPTION = "One daemon that owns all the MCP servers of this machine."
EXIT_CODES = """\
exit status:
  0 done   1 failed   2 wrong usage   3 not connected, or no such server
  69 the daemon cannot be reached   78 the configuration is wrong

`mcp-supervisor VERB --help` shows examples.
"""


def parse(argv: Sequence[str]) -> Command:
    """The command that the words ask for.

    Raises:
        Usage: the words make no command.
        SystemExit: help was asked for and is printed.
    """
    parser = _parser()
    options, surplus = parser.parse_known_args(list(argv))
    options.rest = [*getattr(options, "rest", ()), *_rest(options, surplus)]
    act: Callable[[Options], int] = options.act
    return lambda: act(options)


def _rest(options: Options, surplus: Sequence[str]) -> Sequence[str]:
    """Words that follow an option; argparse takes a list of words only where it begins."""
    unknown = [word for word in surplus if word.startswith("-") or not options.takes_more]
    if unknown:
        raise Usage(
            f"cannot understand {one_line(' '.join(unknown))!r}; see 'mcp-supervisor {options.verb} --help'"
        )
    return surplus


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(f"cannot understand the command: {message}; see '{self.prog} --help'")


def _parser() -> _Parser:
    parser = _Parser(
        prog="mcp-supervisor",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_common(parser, json_default=False, socket_default=None)
    parser.add_argument("--version", action="version", version=f"mcp-supervisor {__version__}")
    parser.set_defaults(takes_more=False)
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for add in (_add_run, _add_status, _add_tools, _add_call, _add_check, _add_shutdown, _add_version):
        add(verbs)
    return parser


def _add_common(parser: argparse.ArgumentParser, *, json_default: Any, socket_default: Any) -> None:
    parser.add_argument("--json", action="store_true", default=json_default, help="print JSON, for programs")
    parser.add_argument("--socket", metavar="PATH", default=socket_default, help="where the daemon listens")


def _verb(verbs: Any, name: str, act: Callable[[Options], int], *, purpose: str, examples: str) -> _Parser:
    verb: _Parser = verbs.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    # Left out here, they keep what stood before the verb.
    _add_common(verb, json_default=argparse.SUPPRESS, socket_default=argparse.SUPPRESS)
    verb.set_defaults(act=act)
    return verb


def _add_run(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "run",
        _run,
        purpose="run the daemon in the foreground",
        examples="""\
  mcp-supervisor run
  mcp-supervisor run --config ~/mcp.json --log-level debug
  mcp-supervisor run --config site.json --config mine.json   (mine.json shadows site.json)
""",
    )
    verb.add_argument("--config", action="append", default=[], metavar="PATH", help="config file; repeatable")
    verb.add_argument("--log-format", choices=("text", "json"), help="form of the log lines (text)")
    verb.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    verb.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop", help="event loop (uvloop)")


def _run(options: Options) -> int:
    from supervisor.daemon import Options as DaemonOptions
    from supervisor.daemon import serve

    return serve(
        DaemonOptions(
            config=tuple(options.config),
            socket=options.socket,
            log_format=options.log_format or ("json" if options.json else "text"),
            log_level=options.log_level,
            loop=options.loop,
        )
    )


def _add_status(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "status",
        _status,
        purpose="show how the servers are, the broken ones first",
        examples="""\
  mcp-supervisor status
  mcp-supervisor status github        (exit status 3 unless it is connected)
  mcp-supervisor status --json | jq -r '.servers[] | select(.state != "connected").name'
""",
    )
    verb.add_argument("server", nargs="?", metavar="SERVER", help="show all that is known of this one")


def _status(options: Options) -> int:
    with connect(options.socket) as client:
        if options.server is None:
            return show_fleet(client, as_json=options.json)
        return show_server(client, options.server, as_json=options.json)


def _add_tools(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "tools",
        _tools,
        purpose="list the tools under their public names",
        examples="""\
  mcp-supervisor tools
  mcp-supervisor tools 'github_*' '!*delete*'
  mcp-supervisor tools --all --server github     (also those left out, and why)
""",
    )
    verb.add_argument("rest", nargs="*", metavar="PATTERN", help="name, glob with *, or !glob to leave out")
    verb.add_argument(
        "--all", action="store_true", dest="everything", help="also show tools left out, with the reason"
    )
    verb.add_argument("--server", metavar="SERVER", help="only the tools of this server")
    verb.set_defaults(takes_more=True)


def _tools(options: Options) -> int:
    with connect(options.socket) as client:
        return show_tools(
            client, options.rest, server=options.server, everything=options.everything, as_json=options.json
        )


def _add_call(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "call",
        _call,
        purpose="call a tool and print what it returns",
        examples="""\
  mcp-supervisor call demo_time_now zone=Europe/Paris
  mcp-supervisor call search_find query='two words' limit=5 tags:='["a", "b"]'
  mcp-supervisor call search_find '{"query": "two words"}'
  generate-arguments | mcp-supervisor call search_find -
Control characters in the text are shown escaped; --json gives the result as the tool sent it.
""",
    )
    verb.add_argument("tool", metavar="TOOL", help="public name, as `tools` lists it")
    verb.add_argument(
        "rest",
        nargs="*",
        metavar="ARGUMENT",
        help="key=value by the tool's schema, key:=JSON, one JSON object, or - to read it from stdin",
    )
    verb.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up after this long")
    verb.add_argument("--approve", action="store_true", help="agree to a tool that asks for confirmation")
    verb.set_defaults(takes_more=True)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")


def _call(options: Options) -> int:
    given = read_words(options.rest, stdin=sys.stdin)
    call = Call(options.tool, given, approved=options.approve, timeout=options.timeout)
    with connect(options.socket) as client:
        return call_tool(client, call, as_json=options.json)


def _add_check(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "check",
        lambda options: check(options.rest, as_json=options.json),
        purpose="check the configuration and show what the daemon makes of it, without secrets",
        examples="""\
  mcp-supervisor check
  mcp-supervisor check mcp.json && systemctl restart mcp-supervisor
""",
    )
    verb.add_argument("rest", nargs="*", metavar="FILE", help="config files, instead of the usual ones")
    verb.set_defaults(takes_more=True)


def _add_shutdown(verbs: Any) -> None:
    _verb(
        verbs,
        "shutdown",
        _shutdown,
        purpose="stop the daemon and all its servers, and wait until they are gone",
        examples="  mcp-supervisor shutdown\n",
    )


def _shutdown(options: Options) -> int:
    with connect(options.socket) as client:
        return shut_down(client, as_json=options.json)


def _add_version(verbs: Any) -> None:
    _verb(
        verbs,
        "version",
        lambda options: show_version(as_json=options.json),
        purpose="print the version of this program",
        examples="  mcp-supervisor version --json\n",
    )
