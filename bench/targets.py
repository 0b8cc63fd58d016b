"""What the figures of our daemon should be: each target names a figure and a bound.

Where several clients stood before it, the thinnest is judged; what `thin` reached is shown beside it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

from bench.chance import ANYWHERE
from bench.end_suites import AFTER_KILL, MANY, left_after_kill
from bench.field import BEFORE_DAEMON
from bench.figures import FLOOR, SDK, Figure, Unit, shown
from bench.harm_suite import ANY, title
from bench.life_suites import HTTP_MEMORY
from bench.peers import PEERS
from bench.pest_server import HABITS, HARMLESS
from bench.table import aligned

Kind = Literal[
    "times the floor at most",
    "at most",
    "of the sdk at most",
    "of the best peer at most",
    "of the best peer at least",
]
Verdict = Literal["kept", "MISSED", "cannot be told", "not measured"]
THIN = "thin"


@dataclass(frozen=True, slots=True)
class Target:
    figure: str
    kind: Kind
    bound: float
    unit: Unit = "times"
    """What the bound is in, where it is not a ratio to another contender."""

    @property
    def asked(self) -> str:
        words = self.kind if self.kind == "at most" else self.kind.replace(" at ", ", at ")
        return f"{self.shown(self.bound)} {words}"

    def shown(self, value: float) -> str:
        return shown(value, self.unit) if self.kind == "at most" else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a target."""

    target: Target
    verdict: Verdict
    client: str = "-"
    """Who was judged."""
    reached: str = "-"
    thin: str = "-"
    """What `thin` reached where it was not judged."""

    @property
    def row(self) -> list[str]:
        return [self.target.figure, self.client, self.target.asked, self.reached, self.thin, self.verdict]


HARM = 1.2
ONE_BY_ONE = ("sequential", "sequential on all processors")
TARGETS = (
    *(Target(f"{each} p50", "times the floor at most", 1.8) for each in ONE_BY_ONE),
    *(Target(f"{each} p50", "of the sdk at most", 1.0) for each in ONE_BY_ONE),
    *(Target(f"{each} p50", "of the best peer at most", 1.0) for each in ONE_BY_ONE),
    *(Target(f"{each} p99", "times the floor at most", 3.0) for each in ONE_BY_ONE),
    *(Target(f"{each} p99", "of the sdk at most", 1.0) for each in ONE_BY_ONE),
    *(Target(f"{each} p99", "of the best peer at most", 1.0) for each in ONE_BY_ONE),
    Target("32 in flight, 1 server", "of the best peer at least", 4.0),
    Target("64 in flight, 8 servers", "of the best peer at least", 4.0),
    Target("32 in flight, 1 server: CPU per call", "of the best peer at most", 0.333),
    Target("64 in flight, 8 servers: CPU per call", "of the best peer at most", 0.333),
    Target("1 MB result p50", "times the floor at most", 1.5),
    Target("list 500 tools p50", "times the floor at most", 3.0),
    Target("list again with since (floor: in full)", "at most", 0.001, "seconds"),
    Target("start to all listed, 50 servers", "times the floor at most", 1.3),
    Target("resident memory, 10 idle servers", "at most", 45e6, "bytes"),
    Target(HTTP_MEMORY, "at most", 80e6, "bytes"),
    Target("kill -9 to the caller's error p99", "at most", 0.05, "seconds"),
    Target("exit with 10 stubborn servers, grace 5 s", "at most", 6.0, "seconds"),
    Target("servers left after that", "at most", 0.0, "count"),
    Target(left_after_kill("stubborn"), "at most", 0.0, "count"),
    Target(left_after_kill("ordinary"), "at most", 0.0, "count"),
    Target(f"exit with {MANY} stubborn servers, grace 5 s", "at most", 6.0, "seconds"),
    Target(f"servers left after that, {MANY} stubborn", "at most", 0.0, "count"),
    Target(f"{AFTER_KILL}: direct children", "at most", 0.0, "count"),
    Target(f"{AFTER_KILL}: of both after the daemon's next start", "at most", 0.0, "count"),
    Target(ANY, "at most", HARM),
    *(Target(title(habit), "at most", HARM) for habit in HABITS if habit != HARMLESS),
)


def judged(figures: Iterable[Figure]) -> list[Judgement]:
    """What became of every target; nothing when not one was measured."""
    by_name = {figure.name: figure for figure in figures}
    found = [_judgement(target, by_name.get(target.figure)) for target in TARGETS]
    return [] if all(each.verdict == "not measured" for each in found) else found


def verdicts(judgements: Iterable[Judgement]) -> list[str]:
    """A table with a row for each of them; nothing when there is none."""
    rows = [each.row for each in judgements]
    return [aligned(["target", "judged by", "asked", "reached", THIN, "verdict"], rows)] if rows else []


def missed(judgements: Iterable[Judgement]) -> bool:
    """Whether any bound was certainly passed."""
    return any(each.verdict == "MISSED" for each in judgements)


def _judgement(target: Target, figure: Figure | None) -> Judgement:
    """What was reached, how far chance may have moved that, and whether it will do."""
    client = next((name for name in BEFORE_DAEMON if figure and name in figure.values), None)
    other = None if figure is None else _compared_with(target.kind, figure)
    if figure is None or client is None or other is None:
        return Judgement(target, "not measured")
    divisor = figure.values[other] if other else 1
    reached = figure.values[client] / divisor
    low, high = figure.between.get((client, other), (reached, reached))
    beside = figure.values.get(THIN) if client != THIN else None
    return Judgement(
        target,
        _verdict(target, low, high),
        client,
        target.shown(reached) + _around(target, low, high),
        "-" if beside is None else target.shown(beside / divisor),
    )


def _around(target: Target, low: float, high: float) -> str:
    """In words, how far chance may have moved what was reached."""
    if (low, high) == ANYWHERE:
        return " (of too few rounds)"
    return "" if low == high else f" ({target.shown(low)} to {target.shown(high)})"


def _verdict(target: Target, low: float, high: float) -> Verdict:
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
        case "of the sdk at most":
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
