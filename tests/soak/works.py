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
from tests.soak.world import World

ROUND = 15.0
"""Seconds of random trouble between two rests."""
PACE = 0.1
"""Seconds between two random acts."""
ROUNDS = 10
"""Rests in a work that is counted and not timed."""
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
    """Everything at once, for so many seconds."""

    def __init__(self, world: World, *, seconds: float, seed: int) -> None:
        self._end = time.monotonic() + seconds
        self._chaos = Chaos(world, seed)
        self.callers = [Caller(world, ROUGH, seed + 1 + index) for index in range(4)]

    @property
    def abandoned(self) -> int:
        return self._chaos.abandoned

    @property
    def ends(self) -> Counter[str]:
        return heard(self.callers) + self._chaos.ends

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    def trouble(self) -> None:
        deadline = min(time.monotonic() + ROUND, self._end)
        while time.monotonic() < deadline:
            self._chaos.act()
            time.sleep(PACE)

    def calm(self) -> None:
        self._chaos.calm()

    def figures(self) -> Iterator[tuple[str, object]]:
        yield from sorted(self._chaos.done.items())


class Counted(ABC):
    """A work that is over when something has happened so many times."""

    abandoned = 0

    def __init__(self, world: World, number: int, callers: Sequence[Caller]) -> None:
        self.world, self.callers = world, callers
        self._number = number

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
    def over(self) -> bool:
        return self.count >= self._number

    def trouble(self) -> None:
        goal = min(self._number, self.count + max(self._number // ROUNDS, 1))
        deadline = time.monotonic() + PATIENCE
        while self.count < goal and time.monotonic() < deadline:
            self.step()
        if self.count < goal:
            self.world.broken.append(f"cannot go on: {self.count} of {goal} were done in {PATIENCE:g} s")
            self._number = self.count

    def calm(self) -> None:
        self.world.start_all()


class KillCycles(Counted):
    """Kills every server as soon as it is up again, with a caller beside it."""

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
    """Nothing but calls."""

    def __init__(self, world: World, *, number: int, seed: int) -> None:
        callers = [Caller(world, SMOOTH, seed + 1 + index, at_once=16) for index in range(4)]
        super().__init__(world, number, callers)

    @property
    def count(self) -> int:
        return sum(caller.ledger.ended for caller in self.callers)

    def step(self) -> None:
        time.sleep(PACE)

    def figures(self) -> Iterator[tuple[str, object]]:
        return iter(())
