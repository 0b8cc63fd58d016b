"""Draw the life of a server by calling `lifecycle.step`, as a Mermaid state diagram in docs/architecture.md.

`python tools/diagram.py` prints the diagram, `python tools/diagram.py --write` puts it between the markers of
the document. A test compares the two, so the picture cannot lie.

The drawing is a search: from a stopped server, every event is applied in every state that can be reached,
under each policy that makes a difference. Moments, run numbers and details are made equal after each step, so
that the search ends.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from supervisor.core.lifecycle import step
from supervisor.core.phases import (
    Backoff,
    DeadlinePassed,
    End,
    Ended,
    Event,
    Goal,
    Idle,
    Killing,
    KillRequested,
    Launched,
    Lost,
    Opened,
    Parted,
    Phase,
    Policy,
    Ready,
    RestartRequested,
    Retuned,
    ServerState,
    Starting,
    StartRequested,
    StopCause,
    Stopped,
    Stopping,
    StopRequested,
    Unavailable,
    Unhealthy,
    Wanted,
)
from supervisor.core.restart import RestartPolicy

DOCUMENT = Path(__file__).parent.parent / "docs" / "architecture.md"
BEGIN = "<!-- lifecycle: drawn by tools/diagram.py -->\n"
END = "<!-- /lifecycle -->\n"

NOW = 100.0
PHASES = (Stopped, Idle, Starting, Ready, Stopping, Killing, Backoff, Unavailable)
RESTING = (Idle, Backoff, Unavailable)
POLICIES = {
    "never": Policy(),
    "on-failure": Policy(restart=RestartPolicy(mode="on-failure", max_failures=2)),
    "always": Policy(restart=RestartPolicy(mode="always", max_failures=2)),
    "lazy": Policy(lazy=True, idle_timeout=10.0),
}
EVENTS: tuple[tuple[str, Event], ...] = (
    ("start", StartRequested()),
    ("stop", StopRequested()),
    ("kill", KillRequested()),
    ("restart", RestartRequested()),
    ("call", Wanted()),
    ("retuned", Retuned()),
    ("deadline", DeadlinePassed()),
    ("launched", Launched(1)),
    ("opened", Opened(1)),
    ("lost", Lost(1, "lost")),
    ("unhealthy", Unhealthy(1, "unhealthy")),
    ("parted", Parted(1, End("cannot be reached"))),
    ("last request", Ended(0, End("session closed"))),
    ("clean end", Ended(1, End("exited with code 0", code=0))),
    ("failed end", Ended(1, End("exited with code 1", code=1))),
    ("hopeless end", Ended(1, End("no such file", hopeless=True))),
)
WORDS = [word for word, _ in EVENTS]
ENDS = WORDS[-3:]
LINGERS = "while calls linger"

Edges = dict[tuple[str, str], dict[str, set[str]]]
"""From and to, then by event, the policies under which it leads there."""


def mermaid() -> str:
    """The diagram, in an order that depends on nothing but the rules."""
    edges, heard = _edges()
    order = [phase.__name__ for phase in PHASES]
    lines = ["stateDiagram-v2", "    [*] --> Stopped"]
    for source, target in sorted(edges, key=lambda edge: (order.index(edge[0]), order.index(edge[1]))):
        label = _label(source, edges[source, target], heard)
        lines.append(f"    {source} --> {target}: {label}")
    return "\n".join(lines) + "\n"


def _edges() -> tuple[Edges, Mapping[tuple[str, str], set[str]]]:
    """Every change of phase, and under which policies each event can come in each phase."""
    edges: Edges = defaultdict(lambda: defaultdict(set))
    heard: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, policy in POLICIES.items():
        for before, event, after in _turns(policy):
            source, target = type(before.phase).__name__, type(after.phase).__name__
            word = _because(before, event)
            heard[source, word].add(name)
            if source != target:
                edges[source, target][word].add(name)
    return edges, heard


def _turns(policy: Policy) -> Iterator[tuple[ServerState, str, ServerState]]:
    """Every step that can happen under a policy."""
    todo = [_leveled(ServerState())]
    seen = set(todo)
    while todo:
        before = todo.pop()
        for word, event in EVENTS:
            after = _leveled(step(before, event, policy, now=NOW).state)
            yield before, word, after
            if after not in seen:
                seen.add(after)
                todo.append(after)


def _leveled(state: ServerState) -> ServerState:
    """The same state with every moment, number and detail made equal."""
    lingering = (0,) if state.lingering else ()
    failures = (NOW,) * len(state.failures)
    return replace(state, phase=_leveled_phase(state.phase), run=1, failures=failures, lingering=lingering)


def _leveled_phase(phase: Phase) -> Phase:
    match phase:
        case Ready():
            return Ready(since=NOW - 20.0, deadline=NOW)
        case Backoff():
            return Backoff(deadline=NOW)
        case Starting(deadline=deadline):
            return Starting(deadline=deadline and NOW)
        case Stopping() | Killing():
            return replace(phase, deadline=NOW, detail="", served=0.0)
        case Unavailable():
            return Unavailable("")
        case Stopped() | Idle():
            return phase
    assert_never(phase)


def _because(state: ServerState, word: str) -> str:
    """An end during a stop means what the stop was for, so that stands in its place."""
    if word in ("stop", "kill", "restart") and state.lingering and isinstance(state.phase, RESTING):
        return f"{word} {LINGERS}"
    if word not in (*ENDS, "parted", "last request") or not isinstance(state.phase, Stopping | Killing):
        return word
    if state.goal is Goal.DOWN:
        return "end of a stop"
    match state.phase.cause:
        case StopCause.RESTART:
            return "end before a new run"
        case StopCause.IDLE:
            return "end of an unused run"
        case _:
            return "end after trouble"


def _label(source: str, words: Mapping[str, set[str]], heard: Mapping[tuple[str, str], set[str]]) -> str:
    """The events of one arrow; those that need a policy for it name it."""
    # Mermaid ends a label at a colon or a semicolon, so commas must do.
    known = {word: number for number, word in enumerate(WORDS)}
    order = sorted(words, key=lambda word: known.get(word.removesuffix(f" {LINGERS}"), len(known)))
    return ", ".join(word + _guard(words[word], heard[source, word]) for word in order)


def _guard(leading: set[str], possible: set[str]) -> str:
    if leading == possible:
        return ""
    return f" ({' or '.join(name for name in POLICIES if name in leading)})"


def section() -> str:
    """The diagram as it stands in the document, markers included."""
    return f"{BEGIN}```mermaid\n{mermaid()}```\n{END}"


def redrawn(document: str) -> str:
    """The document with the diagram of today.

    Raises:
        ValueError: the markers are missing.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"cannot find the markers {BEGIN.strip()} and {END.strip()}; put them back")
    return before + section() + after


def main() -> None:
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(redrawn(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(mermaid())


if __name__ == "__main__":
    main()
