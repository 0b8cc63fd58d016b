"""Methods about agents: their patterns, and what these match now."""

from collections.abc import Mapping
from typing import Any

import msgspec

from supervisor.core.agents import Agent, find, selection, unmatched
from supervisor.surfaces.daemon_methods import NoParams
from supervisor.surfaces.service import Caller, Service
from supervisor.surfaces.toolnames import known


class AgentParams(msgspec.Struct, rename="camel", frozen=True):
    """Which agent."""

    agent: str
    """Its name."""


def agents_list(service: Service, _params: NoParams, _caller: Caller) -> Mapping[str, Any]:
    agents = service.loaded.agents.values()
    return {"agents": [{**_described(agent), "tools": len(_tools(service, agent.name))} for agent in agents]}


def agents_get(service: Service, params: AgentParams, _caller: Caller) -> Mapping[str, Any]:
    agent = find(service.loaded.agents, params.agent)
    absent = unmatched({agent.name: agent}, known(service))
    return {
        **_described(agent),
        "tools": _tools(service, agent.name),
        "unmatched": absent.get(agent.name, ()),
    }


def _described(agent: Agent) -> dict[str, Any]:
    return {"name": agent.name, "patterns": agent.patterns, "source": agent.source}


def _tools(service: Service, agent: str) -> list[str]:
    """The public names that the agent sees now, in order."""
    allowed = selection(service.loaded.agents, agent, None)
    names = (listed.public_name for listed in service.fleet.catalog.listed)
    return [name for name in names if allowed is None or allowed(name)]
