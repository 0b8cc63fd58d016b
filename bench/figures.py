"""What a figure is, and the arithmetic behind it. Values are seconds, bytes, calls per second or counts."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

Unit = Literal["seconds", "bytes", "calls/s", "count", "times"]
FLOOR = "floor"
SDK = "sdk"
RELAY = "relay"
BARE = "bare"
BARE_ON_UVLOOP = "bare-uvloop"
Compared = tuple[str, str]
"""A contender and another one, whose value its own is divided by; nobody's when it is a ratio already."""
NANO = 1e-9


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table."""

    name: str
    unit: Unit
    values: Mapping[str, float]
    """By contender."""
    between: Mapping[Compared, tuple[float, float]] = field(
        default_factory=dict[Compared, tuple[float, float]]
    )
    """Where chance may have moved these ratios, 95 times of 100; empty where it was not looked at."""

    def ratio(self, contender: str) -> float | None:
        """The contender's value over the floor's; None where there is no such thing."""
        floor = self.values.get(FLOOR)
        value = self.values.get(contender)
        return None if not floor or value is None else value / floor


def percentile(sample: Sequence[float], share: float) -> float:
    """The value that `share` of the sample does not pass."""
    ordered = sorted(sample)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def median_of(rounds: Sequence[float]) -> float:
    return statistics.median(rounds)


def shown(value: float, unit: Unit) -> str:
    """The value for a person, in three or four digits."""
    match unit:
        case "seconds":
            return _seconds(value)
        case "bytes":
            return f"{value / 1e6:.1f} MB"
        case "calls/s":
            return f"{value:,.0f}/s".replace(",", " ")
        case "count":
            return f"{value:.0f}"
        case "times":
            return f"{value:.2f}x"
    assert_never(unit)


def _seconds(value: float) -> str:
    if value < 1e-3:
        return f"{value * 1e6:.1f} us"
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"
