"""What one bad server costs the callers of another.

Two daemons of the same kind stand side by side, each with an innocent server that is called at a fixed rate,
at the same time. The bad server runs in one of them: in each in turn, and in neither in between. So there are
two comparisons. Over the *twin*, which has no bad server but shares the processors with it at that very
moment, is what sitting in one daemon with it costs; this is judged. Over the calls *without* it is that and
what any such process costs that runs on the same processors. `sleep` does nothing and shows what chance does.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.calm import Taken, calmest
from bench.chance import between
from bench.field import Entrant, Ground, fleet_of
from bench.figures import Figure, median_of, percentile
from bench.load import ECHO, ECHO_ARGUMENTS
from bench.pest_server import HABITS
from bench.plan import Plan
from supervisor.client import SyncClient

PEST_SERVER = str(Path(__file__).with_name("pest_server.py"))
CALLER = "plain"
INTERVAL = 2_500_000
"""Nanoseconds from call to call."""
WINDOW = 200
"""Calls to each daemon between two changes."""
_SETTLED = 0.1
"""Seconds after which what a start or a stop costs is over."""


@dataclass(frozen=True, slots=True)
class Round:
    """How long calls took, in nanoseconds; of each kind there are as many."""

    beside: list[int]
    twin: list[int]
    without: list[int]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two daemons."""

    entrant: Entrant
    operator: SyncClient

    @contextmanager
    def having(self, habit: str) -> Iterator[None]:
        self.operator.request("servers/start", {"server": habit})
        time.sleep(_SETTLED)
        try:
            yield
        finally:
            self.operator.request("servers/stop", {"server": habit})
            time.sleep(_SETTLED)


def harm(ground: Ground, plan: Plan) -> list[Figure]:
    """Two rows for each bad habit."""
    if CALLER not in ground.contenders:
        return []
    ground.peers_lack("p99 beside a bad server", "they have no way to start and stop one server")
    with _side(ground) as one, _side(ground) as other:
        rounds = {habit: calmest(_rounds(one, other, plan, habit), least=plan.harms // 2) for habit in HABITS}
    return [figure for habit in HABITS for figure in figures(habit, rounds[habit])]


def title(habit: str) -> str:
    return f"p99 beside a server with {habit}, over a twin daemon's"


def figures(habit: str, rounds: Sequence[Round]) -> Iterator[Figure]:
    """What was found beside that habit."""
    yield _figure(title(habit), rounds, over_twin)
    yield _figure(f"p99 beside {habit}, over p99 without it", rounds, over_without)


def _figure(name: str, rounds: Sequence[Round], ratio: Callable[[Sequence[Round]], float]) -> Figure:
    return Figure(name, "times", {CALLER: ratio(rounds)}, {(CALLER, ""): between(rounds, ratio)})


def over_twin(rounds: Sequence[Round]) -> float:
    """The median of all rounds, so that what disturbs one of them from outside does not decide."""
    return median_of([_p99(each.beside) / _p99(each.twin) for each in rounds])


def over_without(rounds: Sequence[Round]) -> float:
    return median_of([_p99(each.beside) / _p99(each.without) for each in rounds])


def _p99(calls: list[int]) -> float:
    return percentile(calls, 0.99)


@contextmanager
def _side(ground: Ground) -> Iterator[Side]:
    fleet = replace(fleet_of(1), beside={habit: _entry(habit) for habit in HABITS})
    with ground.enter(CALLER, fleet) as entrant, SyncClient(entrant.worker.fleet.socket) as operator:
        for habit in HABITS:
            operator.request("servers/stop", {"server": habit})
        yield Side(entrant, operator)


def _entry(habit: str) -> dict[str, Any]:
    restart = {"policy": "always", "delay": 0.3, "maxDelay": 0.3, "maxFailures": 10_000}
    return {"command": sys.executable, "args": ["-I", "-S", PEST_SERVER, habit], "restart": restart}


def _rounds(one: Side, other: Side, plan: Plan, habit: str) -> Iterator[Taken[Round]]:
    """Without, in the one, in the other, without: what changes slowly changes all alike."""
    for _ in range(plan.harms):
        before = plan.calm.take(partial(_calls, one, other))
        with one.having(habit):
            first = plan.calm.take(partial(_calls, one, other))
        with other.having(habit):
            second = plan.calm.take(partial(_calls, other, one))
        after = plan.calm.take(partial(_calls, one, other))
        disturbed = sum(window.stolen for window in (before, first, second, after))
        beside, twin = (first.value[side] + second.value[side] for side in (0, 1))
        yield Taken(Round(beside, twin, before.value[0] + after.value[1]), disturbed)


def _calls(*sides: Side) -> list[list[int]]:
    """Calls to all of them at the same time."""
    for side in sides:
        side.entrant.worker.tell(
            "at_rate", tool=ECHO, arguments=ECHO_ARGUMENTS, times=WINDOW, interval=INTERVAL
        )
    return [side.entrant.worker.answer() for side in sides]
