"""What the figures of our daemon should be: each target names a figure and a bound.

Where several clients stood before it, the thinnest is judged.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, assert_never

from bench.end_suites import AFTER_KILL, MANY
from bench.field import BEFORE_DAEMON
from bench.figures import FLOOR, SDK, Figure, shown
from bench.harm_suite import ANY, title
from bench.life_suites import HTTP_MEMORY
from bench.peers import PEERS
from bench.pest_server import HABITS, HARMLESS
from bench.table import aligned

Kind = Literal[
    "times the floor at most",
    "at most",
    "of the sdk at most",
    "of the sdk at least",
    "of the best peer at most",
    "of the best peer at least",
]


@dataclass(frozen=True, slots=True)
class Target:
    figure: str
    kind: Kind
    bound: float


HARM = 1.2
TARGETS = (
    Target("sequential p50", "times the floor at most", 1.8),
    Target("sequential on all processors p50", "times the floor at most", 1.8),
    Target("sequential p50", "of the sdk at most", 1.0),
    Target("sequential p99", "times the floor at most", 3.0),
    Target("sequential p99", "of the sdk at most", 1.0),
    Target("sequential p99", "of the best peer at most", 1.0),
    Target("32 in flight, 1 server", "of the sdk at least", 5.0),
    Target("sequential p50", "of the best peer at most", 1.0),
    Target("sequential on all processors p50", "of the sdk at most", 1.0),
    Target("sequential on all processors p50", "of the best peer at most", 1.0),
    Target("32 in flight, 1 server", "of the best peer at least", 4.0),
    Target("64 in flight, 8 servers", "of the best peer at least", 4.0),
    Target("32 in flight, 1 server: CPU per call", "of the best peer at most", 0.333),
    Target("64 in flight, 8 servers: CPU per call", "of the best peer at most", 0.333),
    Target("1 MB result p50", "times the floor at most", 1.5),
    Target("list 500 tools p50", "times the floor at most", 3.0),
    Target("list again with since (floor: in full)", "at most", 0.001),
    Target("start to all listed, 50 servers", "times the floor at most", 1.3),
    Target("resident memory, 10 idle servers", "at most", 45e6),
    Target(HTTP_MEMORY, "at most", 80e6),
    Target("kill -9 to the caller's error p99", "at most", 0.05),
    Target("exit with 10 stubborn servers, grace 5 s", "at most", 6.0),
    Target("servers left after that", "at most", 0.0),
    Target("servers left after kill -9 of the holder", "at most", 0.0),
    Target(f"exit with {MANY} stubborn servers, grace 5 s", "at most", 6.0),
    Target(f"servers left after that, {MANY} stubborn", "at most", 0.0),
    Target(f"{AFTER_KILL}: direct children", "at most", 0.0),
    Target(f"{AFTER_KILL}: of both after the daemon's next start", "at most", 0.0),
    Target(ANY, "at most", HARM),
    *(Target(title(habit), "at most", HARM) for habit in HABITS if habit != HARMLESS),
)


def verdicts(figures: Iterable[Figure]) -> list[str]:
    """A table with a row for every target whose figure was measured; nothing when there is none."""
    by_name = {figure.name: figure for figure in figures}
    rows = [row for target in TARGETS if (row := _row(target, by_name.get(target.figure)))]
    return [aligned(["target", "judged by", "asked", "reached", ""], rows)] if rows else []


def _row(target: Target, figure: Figure | None) -> list[str] | None:
    """What was asked, what was reached, and whether that will do; None when it was not measured."""
    client = next((name for name in BEFORE_DAEMON if figure and name in figure.values), None)
    if figure is None or client is None:
        return None
    other = _compared_with(target.kind, figure)
    if other is None:
        return None
    reached = figure.values[client] / (figure.values[other] if other else 1)
    low, high = figure.between.get((client, other), (reached, reached))
    show = "{:.3g}".format if other else partial(shown, unit=figure.unit)
    kind = target.kind.replace(" at ", ", at ") if other else target.kind
    around = "" if low == high else f" ({show(low)} to {show(high)})"
    return [
        target.figure,
        client,
        f"{show(target.bound)} {kind}",
        show(reached) + around,
        _verdict(target, low, high),
    ]


def _verdict(target: Target, low: float, high: float) -> str:
    """Kept or missed, when all that chance may have hidden says the same."""
    kept = {_holds(target, low), _holds(target, high)}
    return "cannot be told" if len(kept) > 1 else "kept" if kept.pop() else "MISSED"


def _compared_with(kind: Kind, figure: Figure) -> str | None:
    """Whose value ours is divided by; nobody's where the bound is one in units, None where it is missing."""
    match kind:
        case "times the floor at most":
            return _if_measured(FLOOR, figure)
        case "at most":
            return ""
        case "of the sdk at most" | "of the sdk at least":
            return _if_measured(SDK, figure)
        case "of the best peer at most":
            return min(_peers_of(figure), key=figure.values.__getitem__, default=None)
        case "of the best peer at least":
            return max(_peers_of(figure), key=figure.values.__getitem__, default=None)
    assert_never(kind)


def _if_measured(name: str, figure: Figure) -> str | None:
    return name if figure.values.get(name) else None


def _peers_of(figure: Figure) -> list[str]:
    return [name for name in PEERS if figure.values.get(name)]


def _holds(target: Target, reached: float) -> bool:
    return reached >= target.bound if target.kind.endswith("at least") else reached <= target.bound
