"""What one bad server costs the callers of another: the p99 of their calls beside it, over that without it.

Both are measured in the same daemon, in turn, with the bad server started and stopped in between; all calls
of a kind are taken together. The processes share the processors, so `sleep`, which does nothing, shows what
chance alone does.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.field import Entrant, Ground, fleet_of
from bench.figures import Figure, percentile
from bench.load import ECHO, ECHO_ARGUMENTS
from bench.pest_server import HABITS
from bench.plan import Plan
from supervisor.client import SyncClient

PEST_SERVER = str(Path(__file__).with_name("pest_server.py"))
TURNS = ("without", "with", "with", "without")
"""So that what changes slowly changes both alike."""


def harm(ground: Ground, plan: Plan) -> list[Figure]:
    """A row for each bad habit."""
    champion = ground.champion
    if champion is None:
        return []
    ground.peers_lack("p99 beside a bad server", "they have no way to start and stop one server")
    fleet = replace(fleet_of(1), beside={habit: _entry(habit) for habit in HABITS})
    with ground.enter(champion, fleet) as entrant, SyncClient(entrant.worker.fleet.socket) as operator:
        for habit in HABITS:
            operator.request("servers/stop", {"server": habit})
        ratios = {habit: _ratio(entrant, plan, operator, habit) for habit in HABITS}
    return [Figure(title(habit), "times", {champion: ratio}) for habit, ratio in ratios.items()]


def _entry(habit: str) -> dict[str, Any]:
    restart = {"policy": "always", "delay": 0.3, "maxDelay": 0.3, "maxFailures": 10_000}
    return {"command": sys.executable, "args": ["-I", "-S", PEST_SERVER, habit], "restart": restart}


def title(habit: str) -> str:
    return f"p99 beside a server with {habit}, over p99 without"


def _ratio(entrant: Entrant, plan: Plan, operator: SyncClient, habit: str) -> float:
    taken: dict[str, list[int]] = {"without": [], "with": []}
    for _ in plan.rounds_of(plan.harms):
        for turn in TURNS:
            with _beside(operator, habit if turn == "with" else None):
                plan.warm(entrant)
                taken[turn] += entrant.ask("in_turn", tool=ECHO, arguments=ECHO_ARGUMENTS, times=plan.calls)
    return percentile(taken["with"], 0.99) / percentile(taken["without"], 0.99)


@contextmanager
def _beside(operator: SyncClient, habit: str | None) -> Iterator[None]:
    """Have that server running, or none."""
    if habit is None:
        yield
        return
    operator.request("servers/start", {"server": habit})
    try:
        yield
    finally:
        operator.request("servers/stop", {"server": habit})
