"""What the beginning and the end cost: starting fleets, servers that die, holders that leave."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench.field import Entrant, Ground, fleet_of
from bench.figures import NANO, Figure, percentile
from bench.plan import Plan, Rounds
from bench.processes import alive, ended_at_last, rss_bytes

STUBBORN = 10
HAVE_STATUS = ("plain", "thin", "mcporter", "mcp-hub")
"""Those that say which of their servers are connected."""
_LAST_BREATH = 0.2
"""Seconds in which what dies with its parent has died."""


def start(ground: Ground, plan: Plan) -> list[Figure]:
    """From the start of the program that holds the servers to all tools listed; and its memory then."""
    figures: list[Figure] = []
    for servers in plan.fleets:
        took, memory = Rounds(), Rounds()
        for _ in plan.rounds_of(plan.starts):
            for name in plan.holders(ground):
                what = f"start with {servers} servers"
                with ground.excused(name, what), ground.enter(name, fleet_of(servers)) as entrant:
                    took.add(name, entrant.opened_after)
                    memory.add(name, rss_bytes(entrant.holder))
        figures.append(Figure(f"start to all listed, {servers} servers", "seconds", took.medians))
        figures.append(Figure(f"resident memory, {servers} idle servers", "bytes", memory.medians))
    return figures


def death(ground: Ground, plan: Plan) -> list[Figure]:
    """From the SIGKILL of a server to the error at whoever waits for its answer, and to its status."""
    middle: dict[str, float] = {}
    slowest: dict[str, float] = {}
    status: dict[str, float] = {}
    fleet = fleet_of(plan.deaths + plan.notices)
    for name in plan.holders(ground):
        with ground.excused(name, "kill -9 to error"), ground.enter(name, fleet) as entrant:
            pids = list(enumerate(entrant.pids(fleet.servers)))
            taken = _deaths(entrant, "death", pids[: plan.deaths])
            middle[name], slowest[name] = percentile(taken, 0.5), percentile(taken, 0.99)
            with ground.excused(name, "kill -9 to status"):
                if name in HAVE_STATUS:
                    status[name] = percentile(_deaths(entrant, "noticed", pids[plan.deaths :]), 0.5)
    return [
        Figure("kill -9 to the caller's error p50", "seconds", middle),
        Figure("kill -9 to the caller's error p99", "seconds", slowest),
        Figure("kill -9 to status p50", "seconds", status),
    ]


def _deaths(entrant: Entrant, command: str, pids: Sequence[tuple[int, int]]) -> list[float]:
    """Seconds from the SIGKILL of each of these servers until what the command waits for."""
    return [entrant.ask(command, server=server, pid=pid) * NANO for server, pid in pids]


def leave(ground: Ground, plan: Plan) -> list[Figure]:
    """The end of the holder, with servers that ignore SIGTERM and the end of their input."""
    took: dict[str, float] = {}
    left: dict[str, float] = {}
    orphans: dict[str, float] = {}
    for name in plan.holders(ground):
        with ground.excused(name, "exit with stubborn servers"):
            took[name], left[name] = _ended(ground, plan, name, _ask_to_end)
    for name in plan.holders(ground):
        with ground.excused(name, "kill -9 of the holder"):
            _, orphans[name] = _ended(ground, plan, name, _kill)
    return [
        Figure(f"exit with {STUBBORN} stubborn servers, grace {plan.stop_grace:.0f} s", "seconds", took),
        Figure("servers left after that", "count", left),
        Figure("servers left after kill -9 of the holder", "count", orphans),
    ]


def _ended(ground: Ground, plan: Plan, name: str, end: Callable[[Entrant], None]) -> tuple[float, int]:
    """How long the end took, and how many servers are alive after it."""
    with ExitStack() as stack:
        fleet = fleet_of(STUBBORN, stubborn=True, stop_grace=plan.stop_grace)
        entrant = stack.enter_context(ground.enter(name, fleet))
        pids = entrant.pids(STUBBORN)
        stack.enter_context(ended_at_last(pids))
        began = time.monotonic()
        end(entrant)
        took = time.monotonic() - began
        time.sleep(_LAST_BREATH)
        return took, sum(map(alive, pids))


def _ask_to_end(entrant: Entrant) -> None:
    if entrant.gateway is None:
        entrant.ask("close")
        entrant.worker.wait()
    else:
        entrant.gateway.send(signal.SIGTERM)
        entrant.gateway.wait()


def _kill(entrant: Entrant) -> None:
    os.kill(entrant.holder, signal.SIGKILL)
    if entrant.gateway is None:
        entrant.worker.wait()
    else:
        entrant.gateway.wait()
