"""What a fleet lives through between two rests: random trouble, kill after kill, or call after call."""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Protocol

from tests.e2e.support import Json
from tests.soak.acts import Chaos
from tests.soak.callers import ROUGH, SMOOTH, Caller
from tests.soak.growth import FEWEST
from tests.soak.world import World

ROUND = 15.0
"""Seconds of random trouble between two rests, at most."""
PACE = 0.1
"""Seconds between two random acts."""
ROUNDS = 12
"""Rests in a work that is counted and not timed; fewer when what is counted comes in bursts."""
WARM_UP = 2
"""Rests at the beginning by which growth is not judged."""
MOST_MEMORY = 5e6
"""Bytes by which the daemon may grow over a whole work."""
FLAT = 2e6
"""Bytes by which it may grow when there are only calls."""
GLANCE = 0.02
"""Seconds between two looks at who is up."""
PATIENCE = 300.0
"""Seconds that one round of a counted work may take."""


class Work(Protocol):
    @property
    def callers(self) -> Sequence[Caller]: ...

    @property
    def abandoned(self) -> int:
        """Calls whose client left before they ended."""
        ...

    @property
    def ends(self) -> Counter[str]:
        """How the other calls ended, as their clients heard it."""
        ...

    most_memory: float
    """Bytes by which it may have the daemon grow."""
    warm_up: int
    """Rests at its beginning by which growth is not judged."""
    yardstick: tuple[str, float]
    """What its slopes are told by, in words and in pieces of work."""

    @property
    def done(self) -> float:
        """How many pieces of the work are done."""
        ...

    @property
    def over(self) -> bool: ...

    def trouble(self) -> None:
        """Make trouble for a while."""
        ...

    def calm(self) -> None:
        """Undo what lasts."""
        ...

    def figures(self) -> Iterator[tuple[str, object]]: ...


def heard(callers: Sequence[Caller]) -> Counter[str]:
    """How the calls of all of them ended."""
    return sum((caller.ledger.ends for caller in callers), Counter[str]())


class RandomTrouble:
    """Everything at once, for so many seconds with all rests, and for as many rounds as a verdict takes."""

    most_memory = MOST_MEMORY
    warm_up = WARM_UP
    yardstick = ("minute of trouble", 60.0)

    def __init__(self, world: World, *, seconds: float, seed: int) -> None:
        self._end = time.monotonic() + seconds
        self._least = self.warm_up + FEWEST
        self._round, self._rounds = min(ROUND, seconds / self._least), 0
        self._chaos = Chaos(world, seed)
        self.callers = [Caller(world, ROUGH, seed + 1 + index) for index in range(4)]

    @property
    def abandoned(self) -> int:
        return self._chaos.abandoned

    @property
    def ends(self) -> Counter[str]:
        return heard(self.callers) + self._chaos.ends

    @property
    def done(self) -> float:
        return self._rounds * self._round

    @property
    def over(self) -> bool:
        return self._rounds >= self._least and time.monotonic() >= self._end

    def trouble(self) -> None:
        self._rounds += 1
        deadline = time.monotonic() + self._round
        while time.monotonic() < deadline:
            self._chaos.act()
            time.sleep(PACE)

    def calm(self) -> None:
        self._chaos.calm()

    def figures(self) -> Iterator[tuple[str, object]]:
        yield from sorted(self._chaos.done.items())


class Counted(ABC):
    """A work that is over when something has happened so many times, in as many rounds as a verdict takes."""

    abandoned = 0
    most_memory = MOST_MEMORY
    warm_up = WARM_UP
    yardstick: tuple[str, float]

    def __init__(self, world: World, number: int, callers: Sequence[Caller]) -> None:
        self.world, self.callers = world, callers
        self._number, self._rounds, self._stuck = number, 0, False

    @property
    @abstractmethod
    def count(self) -> int:
        """How often it has happened."""

    @abstractmethod
    def step(self) -> None:
        """Do a little, or wait a little."""

    @abstractmethod
    def figures(self) -> Iterator[tuple[str, object]]: ...

    @property
    def ends(self) -> Counter[str]:
        return heard(self.callers)

    @property
    def done(self) -> float:
        return self.count

    @property
    def over(self) -> bool:
        enough = self.count >= self._number and self._rounds >= self.warm_up + FEWEST
        return enough or self._stuck

    def trouble(self) -> None:
        self._rounds += 1
        goal = self.count + max(self._number // ROUNDS, 1)
        deadline = time.monotonic() + PATIENCE
        while self.count < goal and time.monotonic() < deadline:
            self.step()
        if self.count < goal:
            self.world.broken.append(f"cannot go on: {self.count} of {goal} were done in {PATIENCE:g} s")
            self._stuck = True

    def calm(self) -> None:
        self.world.start_all()


class KillCycles(Counted):
    """Kills every server as soon as it is up again, with a caller beside it."""

    yardstick = ("1 000 kills", 1000.0)

    def __init__(self, world: World, *, number: int, seed: int) -> None:
        super().__init__(world, number, [Caller(world, SMOOTH, seed + 1, at_once=4)])
        self._random = Random(seed)
        self._cycles = self._replaced = 0
        self._killed: dict[str, int] = {}
        """The run of each server that was killed last."""

    @property
    def count(self) -> int:
        return self._cycles

    def step(self) -> None:
        """Kill whoever is up again."""
        for name, state in self._returned().items():
            self._killed[name] = state["run"]
            self.world.kill(state["pid"])
        if self._random.random() < 0.05:
            self._replaced += 1
            self._random.choice(self.world.remotes).replace()
        time.sleep(GLANCE)

    def _returned(self) -> dict[str, Json]:
        """Those that are up and were not killed since; with its return the last kill is a whole cycle."""
        states = self.world.states()
        up = {name: states[name] for name in self.world.names if states[name]["state"] == "connected"}
        fresh = {name: state for name, state in up.items() if state["run"] > self._killed.get(name, 0)}
        self._cycles += len(fresh.keys() & self._killed.keys())
        return fresh

    def calm(self) -> None:
        super().calm()
        self._returned()
        self._killed.clear()

    def figures(self) -> Iterator[tuple[str, object]]:
        yield "kill cycles", self._cycles
        yield "kills of HTTP servers", self._replaced


class Calls(Counted):
    """Nothing but calls, over which nothing comes."""

    most_memory = FLAT
    yardstick = ("10 000 calls", 10_000.0)

    def __init__(self, world: World, *, number: int, seed: int) -> None:
        callers = [Caller(world, SMOOTH, seed + 1 + index, at_once=16, troubled=False) for index in range(4)]
        super().__init__(world, number, callers)

    @property
    def count(self) -> int:
        return sum(caller.ledger.ended for caller in self.callers)

    def step(self) -> None:
        time.sleep(PACE)

    def figures(self) -> Iterator[tuple[str, object]]:
        return iter(())
