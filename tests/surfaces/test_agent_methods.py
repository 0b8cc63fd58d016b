"""`agents/list` and `agents/get`: what agents may use, and what of it is there now."""

from dataclasses import dataclass
from typing import cast

import msgspec
import pytest

from supervisor.core.agents import Agent
from supervisor.core.catalog import Catalog, Shelf, done, parse_tools
from supervisor.core.servers import Loaded
from supervisor.core.spec import SupervisorSettings
from supervisor.errors import InvalidParams
from supervisor.runtime.listing import Listing
from supervisor.surfaces.agent_methods import AgentParams, agents_get, agents_list
from supervisor.surfaces.daemon_methods import NoParams
from supervisor.surfaces.service import Caller, Service

AGENTS = {
    "architect": Agent("architect", ("*", "!web_*"), "/etc/AGENTS.md"),
    "reader": Agent("reader", ("files_read", "files_raed", "!gone", "none_*"), "/etc/mcp.json"),
}
NOBODY = cast("Caller", None)


@dataclass(frozen=True, slots=True)
class MemberAtRest:
    """A server that has not listed anything yet."""

    prefix: str
    shelf: None = None


@dataclass(frozen=True, slots=True)
class FleetAtRest:
    """A fleet of which only the tools are looked at."""

    listing: Listing
    members: dict[str, MemberAtRest]

    @property
    def catalog(self) -> Catalog:
        return self.listing.catalog


@dataclass(frozen=True, slots=True)
class ServiceAtRest:
    fleet: FleetAtRest
    loaded: Loaded


def shelf(server: str, *tools: str, writes: bool = False) -> Shelf:
    hints = {"annotations": {"readOnlyHint": False}} if writes else {}
    definitions = [msgspec.json.encode({"name": tool, "inputSchema": {}, **hints}) for tool in tools]
    good, bad = done(parse_tools(definitions))
    return Shelf(server, server, good, None, bad)


def service(agents: dict[str, Agent] = AGENTS) -> Service:
    shelves = [shelf("files", "read", "write"), shelf("web", "get"), shelf("disk", "format", writes=True)]
    gone = [shelf("git", "log"), shelf("mail", "send", writes=True)]
    listing = Listing(lambda: shelves, lambda: gone, separator="_", policy="read-only")
    listing.changed("began")
    loaded = Loaded(SupervisorSettings(), {}, (), (), (), unreadable=False, agents=agents)
    return cast("Service", ServiceAtRest(FleetAtRest(listing, {"slow": MemberAtRest("slow")}), loaded))


def test_agents_are_listed_with_how_many_tools_they_have_now() -> None:
    assert agents_list(service(), NoParams(), NOBODY) == {
        "agents": [
            {"name": "architect", "patterns": ("*", "!web_*"), "source": "/etc/AGENTS.md", "tools": 2},
            {
                "name": "reader",
                "patterns": ("files_read", "files_raed", "!gone", "none_*"),
                "source": "/etc/mcp.json",
                "tools": 1,
            },
        ]
    }


def test_an_agent_is_shown_with_its_tools_and_the_exact_names_that_match_nothing() -> None:
    assert agents_get(service(), AgentParams("reader"), NOBODY) == {
        "name": "reader",
        "patterns": ("files_read", "files_raed", "!gone", "none_*"),
        "source": "/etc/mcp.json",
        "tools": ["files_read"],
        "unmatched": ("files_raed", "gone"),
    }


def test_an_agent_that_may_everything_has_every_tool_and_nothing_unmatched() -> None:
    agents = {"any": Agent("any", ("*",), "f")}

    answer = agents_get(service(agents), AgentParams("any"), NOBODY)

    assert (answer["tools"], answer["unmatched"]) == (["files_read", "files_write", "web_get"], ())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("disk_format", "refused by policy"),
        ("git_log", "its server is gone"),
        ("mail_send", "refused by policy, and its server is gone"),
        ("slow_poke", "its server has yet to list its tools"),
    ],
)
def test_a_tool_that_cannot_be_called_now_is_none_that_no_server_has(name: str, why: str) -> None:
    agents = {"a": Agent("a", (name,), "f")}

    answer = agents_get(service(agents), AgentParams("a"), NOBODY)

    assert (answer["tools"], answer["unmatched"]) == ([], ()), why


def test_an_unknown_agent_is_refused() -> None:
    with pytest.raises(InvalidParams, match=r"^cannot find agent 'x'; known agents: architect, reader$"):
        agents_get(service(), AgentParams("x"), NOBODY)


def test_the_answers_can_be_encoded() -> None:
    answers = [
        agents_list(service(), NoParams(), NOBODY),
        agents_get(service(), AgentParams("reader"), NOBODY),
    ]

    assert msgspec.json.decode(msgspec.json.encode(answers))
