"""How much the daemon holds over a soak, and whether that grows."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from supervisor.runtime.heap import LOOK
from tests.soak.world import World

MOST_GROWTH = 5_000_000
"""Bytes by which the daemon may grow after its warm-up."""
MEBIBYTE = 1024 * 1024

Sample = tuple[float, int]
"""When, and how many bytes were held."""


@dataclass(slots=True)
class Memory:
    """What the daemon held at each rest; the first half of it is warm-up."""

    world: World
    samples: list[Sample] = field(default_factory=list)

    def sample(self) -> None:
        """Take note of the least that is held until the daemon has given back what it does not need."""
        held, deadline = self.world.resident(), time.monotonic() + LOOK + 1
        while time.monotonic() < deadline:
            time.sleep(0.2)
            held = min(held, self.world.resident())
        self.samples.append((time.monotonic(), held))

    def figures(self) -> Iterator[tuple[str, object]]:
        """The samples and the growth; too much of it is a promise broken."""
        warm = second_half(self.samples)
        yield "memory at each rest, MiB", " ".join(f"{held / MEBIBYTE:.1f}" for _, held in self.samples)
        yield "  second half, last minus first", f"{(warm[-1][1] - warm[0][1]) / MEBIBYTE:+.2f} MiB"
        yield "  second half, slope", f"{slope(warm) * 60 / MEBIBYTE:+.3f} MiB a minute"
        grown = growth(self.samples)
        if grown > MOST_GROWTH:
            self.world.broken.append(f"the daemon grew by {grown / MEBIBYTE:.1f} MiB after its warm-up")


def second_half(samples: list[Sample]) -> list[Sample]:
    """The samples after the warm-up."""
    return samples[len(samples) // 2 :]


def growth(samples: list[Sample]) -> float:
    """Bytes by which the daemon grew after its warm-up, by its ends or by its slope, whichever is more."""
    warm = second_half(samples)
    (first_at, first), (last_at, last) = warm[0], warm[-1]
    return max(last - first, slope(warm) * (last_at - first_at))


def slope(samples: list[Sample]) -> float:
    """Bytes per second, by least squares."""
    count = len(samples)
    mean_at = sum(at for at, _ in samples) / count
    mean = sum(held for _, held in samples) / count
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    return sum((at - mean_at) * (held - mean) for at, held in samples) / spread if spread else 0.0
