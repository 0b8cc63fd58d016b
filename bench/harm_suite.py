"""What one bad server costs the callers of another.

Two daemons of the same kind stand side by side, each with an innocent server that is called at a fixed rate,
by turns. The bad server runs in one of them, then in the other, then in neither. So there are two
comparisons. Over the *twin*, which has no bad server but shares the processors with it at that very
moment, is what sitting in one daemon with it costs; this is judged. Over the calls *without* it is that and
what any such process costs that runs on the same processors. `sleep` does nothing and shows what chance does.
The bad server's entry has the defaults of any other, except that it is started again whatever it did.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.calm import Calm, Taken, calmest
from bench.chance import between
from bench.field import Entrant, Ground, fleet_of
from bench.figures import NANO, Figure, percentile
from bench.load import ECHO, ECHO_ARGUMENTS
from bench.pest_server import CRASHES, HABITS, HARMLESS
from bench.plan import Plan
from supervisor.client import SyncClient

PEST_SERVER = str(Path(__file__).with_name("pest_server.py"))
CALLER = "plain"
INTERVAL = 2_500_000
"""Nanoseconds from call to call."""
SLICES, CALLS = 24, 20
"""Slices of so many calls to each daemon between two changes: 1.2 s, in which a server crashes twice."""
_SETTLED = 0.1
"""Seconds after which what a start or a stop costs is over."""


Slice = Taken[list[int]]


@dataclass(frozen=True, slots=True)
class Round:
    """How long calls took, in nanoseconds, slice by slice."""

    beside: list[Slice]
    twin: list[Slice]
    without: list[Slice]


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
        rounds = {habit: list(_rounds(one, other, plan, habit)) for habit in HABITS}
    bad = [each for habit in HABITS if habit != HARMLESS for each in rounds[habit]]
    return [
        *(figure for habit in HABITS for figure in figures(habit, rounds[habit])),
        *slowest(CRASHES, rounds[CRASHES]),
        _figure(ANY, bad, over_twin),
        _figure("p99 beside a bad server of any kind, over p99 without it", bad, over_without),
    ]


ANY = "p99 beside a bad server of any kind, over a twin daemon's"
"""All bad habits together, which leaves less to chance than any of them."""


def title(habit: str) -> str:
    return f"p99 beside a server with {habit}, over a twin daemon's"


def figures(habit: str, rounds: Sequence[Round]) -> Iterator[Figure]:
    """What was found beside that habit."""
    yield _figure(title(habit), rounds, over_twin)
    yield _figure(f"p99 beside {habit}, over p99 without it", rounds, over_without)


def _figure(name: str, rounds: Sequence[Round], ratio: Callable[[Sequence[Round]], float]) -> Figure:
    return Figure(name, "times", {CALLER: ratio(rounds)}, {(CALLER, ""): between(rounds, ratio)})


def over_twin(rounds: Sequence[Round]) -> float:
    return _p99(each.beside for each in rounds) / _p99(each.twin for each in rounds)


def over_without(rounds: Sequence[Round]) -> float:
    return _p99(each.beside for each in rounds) / _p99(each.without for each in rounds)


def slowest(habit: str, rounds: Sequence[Round]) -> Iterator[Figure]:
    """What a p99 hides: two crashes in 1.2 s hold up fewer calls than one of a hundred."""
    for where, windows in (
        (f"beside a server with {habit}", [each.beside for each in rounds]),
        ("at a twin daemon meanwhile", [each.twin for each in rounds]),
    ):
        yield Figure(f"slowest call {where}", "seconds", {CALLER: max(_calm(windows)) * NANO})


def _p99(windows: Iterable[list[Slice]]) -> float:
    """Of the calls of all calm slices together: of one window it would be one of its slowest five."""
    return percentile(_calm(windows), 0.99)


def _calm(windows: Iterable[list[Slice]]) -> list[int]:
    """How long the calls of all calm slices took."""
    slices = [each for window in windows for each in window]
    return [call for calls in calmest(slices, least=len(slices) // 4) for call in calls]


@contextmanager
def _side(ground: Ground) -> Iterator[Side]:
    fleet = replace(fleet_of(1), beside={habit: _entry(habit) for habit in HABITS})
    with ground.enter(CALLER, fleet) as entrant, SyncClient(entrant.worker.fleet.socket) as operator:
        for habit in HABITS:
            operator.request("servers/stop", {"server": habit})
        yield Side(entrant, operator)


def _entry(habit: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", PEST_SERVER, habit], "restart": "always"}


def _rounds(one: Side, other: Side, plan: Plan, habit: str) -> Iterator[Round]:
    """In the one, without, in the other: what changes slowly changes all alike."""
    for _ in range(plan.harms):
        with one.having(habit):
            first = _calls(plan.calm, one, other)
        without = _calls(plan.calm, one, other)
        with other.having(habit):
            second = _calls(plan.calm, other, one)
        yield Round(first[0] + second[0], first[1] + second[1], without[0] + without[1])


def _calls(calm: Calm, *sides: Side) -> list[list[Slice]]:
    """Calls to all of them by turns, each in the middle between two calls of the other."""
    for number, side in enumerate(sides):
        if number:
            time.sleep(INTERVAL * NANO / len(sides))
        side.entrant.worker.tell(
            "at_rate",
            tool=ECHO,
            arguments=ECHO_ARGUMENTS,
            slices=SLICES,
            calls=CALLS,
            interval=INTERVAL,
        )
    answers = [side.entrant.worker.answer() for side in sides]
    windows = [[Taken(calls, ticks) for ticks, calls in answer] for answer in answers]
    for window in windows:
        calm.note(window)
    return windows
