"""What the daemon holds at each rest of a soak (memory, descriptors, tasks), and whether that grows.

The first rests are warm-up; how many is said beforehand and does not depend on what they show. Through what
comes after goes a line, by least squares over the work that was done, and its rise is judged as if all of the
work had gone on so, the warm-up included.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from supervisor.runtime.heap import LOOK
from tests.soak.world import World

FEWEST = 4
"""Rests after the warm-up without which nothing can be said."""
MOST_COUNT = 2.0
"""Descriptors, or tasks, that a whole work may add at rest; one that comes or goes is chance."""
MEBIBYTE = 1024 * 1024

Point = tuple[float, float]
"""How much of the work was done, and how much was held."""


@dataclass(slots=True)
class Series:
    """One thing that the daemon holds."""

    label: str
    most: float
    """By how much it may grow over the whole of the work."""
    warm_up: int
    """How many points at the beginning do not count."""
    unit: float = 1.0
    places: int = 0
    points: list[Point] = field(default_factory=list)

    @property
    def warm(self) -> list[Point]:
        """What was held after the warm-up."""
        return self.points[self.warm_up :]

    def figures(self, whole: float, yardstick: tuple[str, float]) -> Iterator[tuple[str, object]]:
        """What was held at each rest, and how steeply that rises."""
        yield f"{self.label} at each rest", " ".join(f"{self._shown(held)}" for _, held in self.points)
        word, size = yardstick
        rise = slope(self.warm) * size / self.unit
        yield f"  slope after {self.warm_up} rests", f"{rise:+.3f} each {word}"
        grown = growth(self.warm, whole=whole) / self.unit
        yield "  growth over the whole", f"{grown:+.2f}, and {self.most / self.unit:.2f} are allowed"

    def complaint(self, whole: float) -> str:
        """What is wrong with it; empty when all is well."""
        if (count := len(self.warm)) < FEWEST:
            return f"cannot judge how {self.label} grew by {count} rests after the warm-up; go on for longer"
        grown = growth(self.warm, whole=whole)
        if grown <= self.most:
            return ""
        return f"{self.label} grew by {grown / self.unit:.2f} over the whole work, as after its warm-up"

    def _shown(self, held: float) -> str:
        return f"{held / self.unit:.{self.places}f}"


class Holdings:
    """What the daemon held at each rest."""

    def __init__(self, world: World, *, most_memory: float, warm_up: int) -> None:
        self._world = world
        self.memory = Series("memory, MiB,", most_memory, warm_up, MEBIBYTE, places=1)
        self.descriptors = Series("descriptors", MOST_COUNT, warm_up)
        self.tasks = Series("tasks", MOST_COUNT, warm_up)

    @property
    def rests(self) -> int:
        return len(self.memory.points)

    def sample_memory(self, done: float) -> None:
        """Take note of the least that is held until the daemon has given back what it does not need."""
        memory, deadline = self._world.resident(), time.monotonic() + LOOK + 1
        while time.monotonic() < deadline:
            time.sleep(0.2)
            memory = min(memory, self._world.resident())
        self.memory.points.append((done, memory))

    def sample_counts(self, done: float) -> None:
        self.descriptors.points.append((done, self._world.descriptors()))
        self.tasks.points.append((done, self._world.tasks()))

    def figures(self, whole: float, yardstick: tuple[str, float]) -> Iterator[tuple[str, object]]:
        """The samples and their slopes; too much growth is a promise broken."""
        for series in (self.memory, self.descriptors, self.tasks):
            yield from series.figures(whole, yardstick)
            if complaint := series.complaint(whole):
                self._world.broken.append(complaint)


def growth(points: Sequence[Point], *, whole: float) -> float:
    """What all of the work adds, by the line through the points or from first to last, whichever is more."""
    ends = points[-1][1] - points[0][1] if points else 0.0
    return max(ends, slope(points) * whole)


def slope(points: Sequence[Point]) -> float:
    """What is added by one piece of work, by least squares."""
    count = max(len(points), 1)
    mean_done = sum(done for done, _ in points) / count
    mean = sum(held for _, held in points) / count
    spread = sum((done - mean_done) ** 2 for done, _ in points)
    return sum((done - mean_done) * (held - mean) for done, held in points) / spread if spread else 0.0
