"""`tools`: what can be called, under its public name, and on request what cannot and why."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import DIM, YELLOW, Column, coloured, screen_width, table
from supervisor.cli.values import mapping
from supervisor.core.globs import allows
from supervisor.core.printable import one_line
from supervisor.errors import DONE
from supervisor.surfaces.client import SyncClient
from supervisor.surfaces.exchange import chosen

MARK_COLOURS = {"read-only": DIM, "confirm": YELLOW, "writes": YELLOW}

Definition = Mapping[str, Any]


def _declare(parser: Parser) -> None:
    parser.add_argument("rest", nargs="*", metavar="PATTERN", help="name, glob with *, or !glob to leave out")
    parser.add_argument(
        "--all", action="store_true", dest="everything", help="also show tools left out, with the reason"
    )
    parser.add_argument("--server", metavar="SERVER", help="only the tools of this server")
    parser.add_argument("--agent", metavar="AGENT", help="only what this agent may see")


def show_tools(options: Options) -> int:
    """Print the tools whose public names the patterns allow; without patterns, all."""
    asked = chosen(all=options.everything, server=options.server, agent=options.agent)
    with SyncClient(options.socket) as client:
        answer = select(client.request("tools/list", asked), options.rest, options.server)
    if options.json:
        print(json.dumps(answer, indent=2))
        return DONE
    for line in lines(answer, width=screen_width(), colour=coloured()):
        print(line)
    return DONE


TOOLS = Verb(
    "tools",
    "list the tools under their public names",
    """\
  mcp-supervisor tools
  mcp-supervisor tools 'github_*' '!*delete*'
  mcp-supervisor tools --all --server github     (also those left out, and why)
  mcp-supervisor tools --agent researcher        (what that agent sees)
""",
    show_tools,
    _declare,
    takes_more=True,
)


def select(answer: Mapping[str, Any], patterns: Sequence[str], server: str | None) -> dict[str, Any]:
    """The answer with only the tools that were asked for."""
    denials_only = all(pattern.startswith("!") for pattern in patterns)
    effective = ("*", *patterns) if denials_only else tuple(patterns)

    def wanted(name: str) -> bool:
        return allows(effective, name)

    chosen = {**answer, "tools": [tool for tool in answer["tools"] if wanted(tool["name"])]}
    if "leftOut" in answer:
        chosen["leftOut"] = [
            tool
            for tool in answer["leftOut"]
            if wanted(tool["name"]) and (server is None or tool["server"] == server)
        ]
    return chosen


def lines(answer: Mapping[str, Any], *, width: int, colour: bool) -> list[str]:
    """The table of tools, the table of those left out, and how much there is."""
    return [
        *_listed(answer["tools"], width, colour=colour),
        *_left_out(answer.get("leftOut", ()), width),
        _footer(answer),
    ]


def _listed(tools: Sequence[Definition], width: int, *, colour: bool) -> list[str]:
    columns = (
        Column("TOOL", most=width // 2),
        Column("ACCESS", colours=MARK_COLOURS if colour else {}),
        Column("DESCRIPTION"),
    )
    rows = [(tool["name"], access(tool), summary(tool)) for tool in tools]
    return table(columns, rows, width=width) if rows else []


def _left_out(tools: Sequence[Definition], width: int) -> list[str]:
    columns = (Column("LEFT OUT", most=width // 3), Column("SERVER", most=16), Column("REASON"))
    rows = [(tool["name"], tool["server"], tool["reason"]) for tool in tools]
    return ["", *table(columns, rows, width=width), ""] if rows else []


def _footer(answer: Mapping[str, Any]) -> str:
    count = len(answer["tools"])
    words = "no tools" if not count else "1 tool" if count == 1 else f"{count} tools"
    if answer.get("complete", True):
        return words
    pending = one_line(", ".join(answer.get("pending", ())))
    return f"{words}; incomplete, still starting: {pending}"


def access(tool: Definition) -> str:
    """What a caller must know before a call: it asks for approval, reads only, or writes."""
    if mapping(tool.get("_meta")).get("approval") == "confirm":
        return "confirm"
    match mapping(tool.get("annotations")).get("readOnlyHint"):
        case True:
            return "read-only"
        case False:
            return "writes"
        case _:
            return "-"


def summary(tool: Definition) -> str:
    """The first line of the description that says something, else the title."""
    description: Any = tool.get("description")
    spoken = description.strip().splitlines() if isinstance(description, str) else []
    return spoken[0] if spoken else str(tool.get("title") or "")
