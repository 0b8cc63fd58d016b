"""`agents`: the named lists of patterns, and what they match now."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import Column, screen_width, table
from supervisor.core.printable import one_line
from supervisor.errors import DONE
from supervisor.surfaces.client import SyncClient

HOW_TO_BEGIN = 'no agents; write "agents": {"NAME": ["PATTERN"]} into "supervisor" of the configuration'

Agent = Mapping[str, Any]


def _declare(parser: Parser) -> None:
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="show this one, with all its tools")


def show_agents(options: Options) -> int:
    """Print all agents, or one."""
    with SyncClient(options.socket) as client:
        if options.agent is None:
            answer = client.request("agents/list")
        else:
            answer = client.request("agents/get", {"agent": options.agent})
    if options.json:
        print(json.dumps(answer, indent=2))
        return DONE
    shown = _listed(answer["agents"]) if options.agent is None else _described(answer)
    for line in shown:
        print(line)
    return DONE


def _listed(agents: Sequence[Agent]) -> list[str]:
    columns = (Column("AGENT", most=24), Column("TOOLS", right=True), Column("PATTERNS"))
    rows = [(agent["name"], str(agent["tools"]), " ".join(agent["patterns"])) for agent in agents]
    return table(columns, rows, width=screen_width()) if rows else [HOW_TO_BEGIN]


def _described(agent: Agent) -> Iterator[str]:
    yield f"{one_line(agent['name'])}: {one_line(' '.join(agent['patterns'])) or '(no patterns)'}"
    yield f"from {one_line(agent['source'])}"
    yield from (f"  {one_line(name)}" for name in agent["tools"])
    yield from (f"no server has {one_line(name)}" for name in agent["unmatched"])
    yield f"{len(agent['tools'])} tools" if len(agent["tools"]) != 1 else "1 tool"


AGENTS = Verb(
    "agents",
    "show the agents, and which tools each may see",
    """\
  mcp-supervisor agents
  mcp-supervisor agents researcher
""",
    show_agents,
    _declare,
)
