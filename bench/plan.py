"""How much work goes into a figure, and the bookkeeping that all suites share."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.calm import Calm, Taken, calmest
from bench.chance import between
from bench.field import BEFORE_DAEMON, LIBRARY, Entrant, Ground, compared
from bench.figures import BARE, BARE_ON_UVLOOP, RELAY, SDK, Compared, Figure, median_of
from bench.load import ECHO, ECHO_ARGUMENTS
from bench.processes import cpu_seconds

_FOR_REFERENCE = (BARE, BARE_ON_UVLOOP, RELAY)
"""They show what calls cost at least, and that is all."""


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int = 7
    budget: float = 15.0
    """Seconds after which no further round begins, so that a busy machine costs precision and not time."""
    warm_up: int = 200
    calls: int = 2000
    block: int = 50_000_000
    """Nanoseconds of calls in a row where contenders take short turns: a slow one is disturbed no oftener."""
    blocks: int = 60
    flood: int = 12_000
    big: int = 30
    listings: int = 40
    starts: int = 9
    fleets: tuple[int, ...] = (10, 50)
    deaths: int = 30
    notices: int = 10
    harms: int = 8
    """Rounds beside each bad server, of three windows."""
    stop_grace: float = 5.0
    calm: Calm = field(default_factory=lambda: Calm(60.0))
    with_sdk: bool = True
    """Whether the SDK takes part where each figure needs a new process: it takes a second to load."""

    def turns(self, entrants: Sequence[Entrant]) -> Iterator[Entrant]:
        """The entrants one after the other, again and again: what disturbs one disturbs all."""
        for _ in self.rounds_of(self.rounds):
            yield from (entrant for entrant in entrants if not entrant.out)

    def rounds_of(self, count: int, shares: int = 1) -> Iterator[int]:
        """Up to `count` rounds, and no more than the budget allows (or several), but at least one."""
        deadline = time.monotonic() + self.budget * shares
        for number in range(count):
            if number and time.monotonic() > deadline:
                return
            yield number

    def holders(self, ground: Ground) -> list[str]:
        """One contender for each kind of holder: all our clients stand before the same daemon."""
        left_out = {*_FOR_REFERENCE, *BEFORE_DAEMON, *ground.out, *(() if self.with_sdk else (SDK,))}
        return [name for name in ground.contenders if name == ground.champion or name not in left_out]

    def holders_and_library(self, ground: Ground) -> list[str]:
        """The same, and what Python users get before the daemon, where that makes a difference."""
        holders = self.holders(ground)
        return [name for name in ground.contenders if name in holders or name == LIBRARY]

    def warm(self, entrant: Entrant, times: int | None = None) -> None:
        """Have the entrant do something before the clock runs."""
        entrant.ask("in_turn", tool=ECHO, arguments=ECHO_ARGUMENTS, times=times or self.warm_up)


QUICK = Plan(
    rounds=2,
    budget=2.0,
    warm_up=100,
    calls=800,
    blocks=8,
    flood=3000,
    big=8,
    listings=8,
    starts=1,
    fleets=(10,),
    deaths=8,
    notices=4,
    harms=1,
    stop_grace=1.0,
    calm=Calm(5.0),
    with_sdk=False,
)

LONG = Plan(rounds=21, budget=45.0, blocks=180, starts=27, deaths=60, harms=24, calm=Calm(180.0))

Suite = Callable[[Ground, Plan], list[Figure]]
_LEAST = 3
"""Rounds that count, however disturbed."""


class Rounds:
    """A value of each contender for every round."""

    def __init__(self) -> None:
        self._values: defaultdict[str, list[Taken[float]]] = defaultdict(list)

    def add(self, name: str, value: Taken[float]) -> None:
        self._values[name].append(value)

    @property
    def medians(self) -> dict[str, float]:
        """Of the calm rounds."""
        return {name: median_of(calmest(values, _LEAST)) for name, values in self._values.items()}

    @property
    def between(self) -> dict[Compared, tuple[float, float]]:
        """How far chance may have moved the ratios that are judged, round by round."""
        return {pair: between(self._pairs(*pair), _ratio) for pair in compared(self._values)}

    def _pairs(self, name: str, other: str) -> list[tuple[float, float]]:
        """The values of both in the calm ones of their common rounds."""
        both = zip(self._values[name], self._values[other], strict=False)
        return calmest([Taken((a.value, b.value), a.stolen + b.stolen) for a, b in both], _LEAST)


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    ours, theirs = zip(*pairs, strict=True)
    return median_of(ours) / median_of(theirs)


class Spent:
    """Processor time for calls, over all rounds: the kernel counts it in steps too large for one."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._calls: defaultdict[str, int] = defaultdict(int)

    @contextmanager
    def on(self, entrant: Entrant) -> Iterator[None]:
        """Take note of what the process that holds the servers spends meanwhile."""
        before = cpu_seconds(entrant.holder)
        yield
        self._seconds[entrant.name] += cpu_seconds(entrant.holder) - before

    def count(self, entrant: Entrant, calls: int) -> None:
        """Take note of how many calls that was for."""
        self._calls[entrant.name] += calls

    @property
    def per_call(self) -> dict[str, float]:
        return {name: self._seconds[name] / calls for name, calls in self._calls.items()}
