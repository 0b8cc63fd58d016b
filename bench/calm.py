"""Figures of moments in which a virtual machine had its processors to itself.

It shares them with others, and `/proc/stat` counts as *stolen* how long it waited for them. What is measured
meanwhile says more about the neighbours than about anybody here. So a measurement that time was stolen from
is taken again while there is time for that, and where enough were left alone, only these count. What was
measured never decides that. On a machine of its own nothing is stolen, and everything counts.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

_STAT = Path("/proc/stat")
_STEAL = 8
"""The field of the first line that counts it, in the kernel's ticks."""
_TRIES = 4

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Taken(Generic[Value]):
    """What was measured, and how much time was stolen meanwhile, in ticks."""

    value: Value
    stolen: int


def stolen() -> int:
    """Ticks that this machine has waited for its processors so far; none where the kernel does not count."""
    fields = _STAT.read_text().partition("\n")[0].split()
    return int(fields[_STEAL]) if len(fields) > _STEAL else 0


class Calm:
    """Takes measurements, and takes them again; that may cost so many seconds in all."""

    def __init__(self, seconds: float, stolen: Callable[[], int] = stolen) -> None:
        self._seconds, self._stolen = seconds, stolen
        self._taken = self._disturbed = 0

    def take(self, measure: Callable[[], Value], tries: int = _TRIES) -> Taken[Value]:
        """The calmest of a few tries; the first one that nothing was stolen from is the last one."""
        calmest = self._once(measure)
        for _ in range(tries - 1):
            if not calmest.stolen or self._seconds <= 0:
                break
            began = time.monotonic()
            calmest = min(calmest, self._once(measure), key=lambda taken: taken.stolen)
            self._seconds -= time.monotonic() - began
        self.note([calmest])
        return calmest

    def note(self, taken: Sequence[Taken[Value]]) -> None:
        """Count what was measured elsewhere."""
        self._taken += len(taken)
        self._disturbed += sum(each.stolen > 0 for each in taken)

    def _once(self, measure: Callable[[], Value]) -> Taken[Value]:
        before = self._stolen()
        value = measure()
        return Taken(value, self._stolen() - before)

    def __str__(self) -> str:
        return f"from {self._disturbed} of {self._taken} measurements"


def calmest(taken: Iterable[Taken[Value]], least: int) -> list[Value]:
    """Whatever nothing was stolen from; where this is less than `least`, so many, the calmest ones."""
    ordered = sorted(taken, key=lambda each: each.stolen)
    calm = sum(not each.stolen for each in ordered)
    return [each.value for each in ordered[: max(calm, least)]]
