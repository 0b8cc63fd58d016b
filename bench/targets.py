"""What the figures of our daemon should be: each target names a figure and a bound.

Where several clients stood before it, the thinnest is judged.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

from bench.field import BEFORE_DAEMON
from bench.figures import Figure
from bench.harm_suite import title
from bench.peers import PEERS
from bench.pest_server import HABITS

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


HARMLESS = 1.2
TARGETS = (
    Target("sequential p50", "times the floor at most", 1.8),
    Target("sequential p50", "of the sdk at most", 1.0),
    Target("sequential p99", "times the floor at most", 3.0),
    Target("32 in flight, 1 server", "of the sdk at least", 5.0),
    Target("sequential p50", "of the best peer at most", 1.0),
    Target("32 in flight, 1 server", "of the best peer at least", 4.0),
    Target("64 in flight, 8 servers", "of the best peer at least", 4.0),
    Target("32 in flight, 1 server: CPU per call", "of the best peer at most", 0.333),
    Target("64 in flight, 8 servers: CPU per call", "of the best peer at most", 0.333),
    Target("1 MB result p50", "times the floor at most", 1.5),
    Target("list 500 tools p50", "times the floor at most", 3.0),
    Target("list again with since (floor: in full)", "at most", 0.001),
    Target("start to all listed, 50 servers", "times the floor at most", 1.3),
    Target("resident memory, 10 idle servers", "at most", 45e6),
    Target("kill -9 to the caller's error p99", "at most", 0.05),
    Target("exit with 10 stubborn servers, grace 5 s", "at most", 6.0),
    Target("servers left after that", "at most", 0.0),
    Target("servers left after kill -9 of the holder", "at most", 0.0),
    *(Target(title(habit), "at most", HARMLESS) for habit in HABITS),
)


def verdicts(figures: Iterable[Figure]) -> list[str]:
    """A line for every target whose figure was measured."""
    by_name = {figure.name: figure for figure in figures}
    lines: list[str] = []
    for target in TARGETS:
        figure = by_name.get(target.figure)
        client = next((name for name in BEFORE_DAEMON if figure and name in figure.values), None)
        if figure is None or client is None:
            continue
        reached = _reached(target.kind, figure, client)
        if reached is not None:
            verdict = "met   " if _holds(target, reached) else "MISSED"
            lines.append(
                f"{verdict}  {target.figure}, {client}: {reached:.3g}, target {target.bound:g} {target.kind}"
            )
    return lines


def _reached(kind: Kind, figure: Figure, client: str) -> float | None:
    match kind:
        case "times the floor at most":
            return figure.ratio(client)
        case "at most":
            return figure.values[client]
        case "of the sdk at most" | "of the sdk at least":
            return _share(figure, client, figure.values.get("sdk"))
        case "of the best peer at most":
            return _share(figure, client, min(_of_peers(figure), default=None))
        case "of the best peer at least":
            return _share(figure, client, max(_of_peers(figure), default=None))
    assert_never(kind)


def _of_peers(figure: Figure) -> list[float]:
    return [value for name, value in figure.values.items() if name in PEERS]


def _share(figure: Figure, contender: str, other: float | None) -> float | None:
    """The contender's value over the other one; None where that is missing."""
    return figure.values[contender] / other if other else None


def _holds(target: Target, reached: float) -> bool:
    return reached >= target.bound if target.kind.endswith("at least") else reached <= target.bound
