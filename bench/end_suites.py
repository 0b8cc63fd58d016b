"""What the end of the holder costs and leaves: asked to end, killed, and started again after that."""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from bench.contender import Fleet
from bench.field import Entrant, Ground, fleet_of
from bench.figures import Figure
from bench.gateway import Daemon, marked
from bench.plan import Plan
from bench.processes import alive, ended_at_last, signal_if_alive
from bench.telling import Worker

SERVERS = 10
MANY = 50
AFTER_KILL = "left after kill -9 of the daemon"
_LAST_BREATH = 0.5
"""Seconds in which what dies with its parent, or with its input, has died."""
_PAUSE = 0.01

Temper = Literal["stubborn", "ordinary"]
"""Stubborn servers ignore SIGTERM and the end of their input, ordinary ones end with either."""


def left_after_kill(temper: Temper) -> str:
    return f"{temper} servers left after kill -9 of the holder"


def leave(ground: Ground, plan: Plan) -> list[Figure]:
    """The end of the holder: asked for, and SIGKILL."""
    return [
        *_asked_to_end(ground, plan),
        _killed(ground, plan, "stubborn"),
        _killed(ground, plan, "ordinary"),
        *_many(ground, plan),
        *_killed_and_started_again(ground),
    ]


def _asked_to_end(ground: Ground, plan: Plan) -> list[Figure]:
    """What the end takes, and leaves, with stubborn servers."""
    took: dict[str, float] = {}
    left: dict[str, float] = {}
    for name in plan.holders(ground):
        with ground.excused(name, "exit with stubborn servers"):
            took[name], left[name] = _ended(ground, name, _fleet(plan, SERVERS), _ask_to_end)
    return [
        Figure(f"exit with {SERVERS} stubborn servers, grace {plan.stop_grace:.0f} s", "seconds", took),
        Figure("servers left after that", "count", left),
    ]


def _killed(ground: Ground, plan: Plan, temper: Temper) -> Figure:
    """What SIGKILL of the holder leaves of its servers."""
    left: dict[str, float] = {}
    for name in plan.holders(ground):
        with ground.excused(name, f"kill -9 of the holder of {temper} servers"):
            _, left[name] = _ended(ground, name, _fleet(plan, SERVERS, temper), _kill)
    return Figure(left_after_kill(temper), "count", left)


def _fleet(plan: Plan, servers: int, temper: Temper = "stubborn") -> Fleet:
    return fleet_of(servers, stubborn=temper == "stubborn", stop_grace=plan.stop_grace)


def _many(ground: Ground, plan: Plan) -> list[Figure]:
    """The same with as many servers as a large machine has, for our daemon."""
    champion = ground.champion
    if champion is None:
        return []
    took, left = _ended(ground, champion, _fleet(plan, MANY), _ask_to_end)
    return [
        Figure(
            f"exit with {MANY} stubborn servers, grace {plan.stop_grace:.0f} s", "seconds", {champion: took}
        ),
        Figure(f"servers left after that, {MANY} stubborn", "count", {champion: left}),
    ]


def _killed_and_started_again(ground: Ground) -> list[Figure]:
    """SIGKILL of the daemon, with nothing around it that would clean up, and its next start."""
    champion = ground.champion
    if champion is None:
        return []
    ground.peers_lack("what the next start leaves", "none looks for what an earlier life left")
    fleet = replace(fleet_of(SERVERS, stubborn=True), brood=True, mark=f"bench-brood-{os.getpid()}")
    with all_ended(fleet.mark), ground.enter(champion, fleet) as entrant:
        servers = set(entrant.pids(SERVERS))
        broods = set(marked(fleet.mark)) - servers
        assert len(broods) == SERVERS, "each server has one descendant that left it"
        _kill(entrant)
        counts = [_left_of(servers), sum(map(alive, broods))]
        counts.append(_left_by_the_next(ground, champion, entrant.worker.fleet, servers | broods))
    names = ("direct children", "descendants that left them", "of both after the daemon's next start")
    return [
        Figure(f"{AFTER_KILL}: {name}", "count", {champion: count})
        for name, count in zip(names, counts, strict=True)
    ]


def _left_by_the_next(ground: Ground, champion: str, fleet: Fleet, before: set[int]) -> int:
    """How many of those processes live when a new daemon on the same socket has listed all its tools."""
    with Worker(champion, fleet) as worker:
        worker.ask("ready")
        with Daemon(ground.program, fleet, Path(fleet.socket).parent):
            worker.ask("open")
            return sum(map(alive, before))


@contextmanager
def all_ended(mark: str) -> Iterator[None]:
    """Kill what carries the mark on the way out."""
    try:
        yield
    finally:
        for pid in marked(mark):
            signal_if_alive(pid, signal.SIGKILL)


def _ended(ground: Ground, name: str, fleet: Fleet, end: Callable[[Entrant], None]) -> tuple[float, int]:
    """How long the end took, and how many servers are alive after it."""
    with ExitStack() as stack:
        entrant = stack.enter_context(ground.enter(name, fleet))
        pids = entrant.pids(fleet.servers)
        stack.enter_context(ended_at_last(pids))
        began = time.monotonic()
        end(entrant)
        took = time.monotonic() - began
        return took, _left_of(pids)


def _left_of(pids: Collection[int]) -> int:
    """How many of these processes live when those that die have had time for it."""
    deadline = time.monotonic() + _LAST_BREATH
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return sum(map(alive, pids))


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
