"""`logs`: what a server wrote to its standard error, and what it writes from now on."""

import itertools
import json
import sys
from collections.abc import Mapping
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb, count
from supervisor.cli.render import DIM, coloured, moment, paint
from supervisor.core.printable import one_line
from supervisor.errors import DONE
from supervisor.surfaces.client import Subscription, SyncClient
from supervisor.surfaces.exchange import chosen


def _declare(parser: Parser) -> None:
    parser.add_argument("server", metavar="SERVER", help="name of the server, as `status` lists it")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what it writes, until Ctrl-C")
    parser.add_argument("-n", "--lines", type=count, metavar="N", help="how many lines, at most (100)")


def show_logs(options: Options) -> int:
    """Print the last lines, oldest first; then, if asked to, each new one as it comes."""
    asked = {"server": options.server, **chosen(lines=options.lines)}
    if options.follow:
        return _follow(options.socket, asked, as_json=options.json)
    with SyncClient(options.socket) as client:
        answer = client.request("servers/logs", asked)
    if options.json:
        print(json.dumps(answer, indent=2))
    else:
        for line in answer["lines"]:
            print_line(line)
    return DONE


def _follow(path: str | None, asked: Mapping[str, Any], *, as_json: bool) -> int:
    with Subscription(path, "servers/logs", {**asked, "follow": True}) as news:
        for line in itertools.chain(news.answer["lines"], news):
            print_line(line, as_json=as_json)
    return DONE


def print_line(line: Mapping[str, Any], *, as_json: bool = False) -> None:
    """One line with its time; for programs as an object. That some were lost goes to stderr."""
    if as_json:
        print(json.dumps(line), flush=True)
    elif line.get("kind") == "lost":
        print(f"(lost {line['count']} lines: they came faster than they were read)", file=sys.stderr)
    else:
        stamp = paint(moment(line["at"]), DIM if coloured() else None)
        print(f"{stamp} {one_line(line['text'])}", flush=True)


LOGS = Verb(
    "logs",
    "show what a server wrote to its standard error",
    """\
  mcp-supervisor logs github
  mcp-supervisor logs github -n 20 -f
""",
    show_logs,
    _declare,
)
