"""What happened, as numbers that only grow: calls, exits, restarts, requests, reloads.

Owns the counting, in plain dictionaries, and the bounds on how many different labels there can be. It reads
no clock and shows nothing: `surfaces.metrics` makes series of it. Counts are kept by the server's name, so
they go on when a reload puts a new run in the place of an old one, and go when the server does.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping
from typing import assert_never

from supervisor.core.phases import (
    Backoff,
    End,
    Idle,
    Killing,
    Phase,
    Ready,
    ServerState,
    Starting,
    StopCause,
    Stopped,
    Stopping,
    Unavailable,
)
from supervisor.errors import Outcome

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BYTES = (256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 5242880.0, 67108864.0)
MOST_TOOLS = 1000
"""Different tools of one server that are counted by their names; the rest is counted together."""
MOST_FRESH = 256
"""Calls of one server that are noted before they are counted."""
OTHER = "other"
UNKNOWN = "unknown"
"""The label of what has no name of its own: a tool that no server has, a method that does not exist."""
_SOURCES_KEPT = 8


class Histogram:
    """How often a value fell below each of some bounds."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """How many values fell into each bucket; the last one has no bound."""
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulative(self) -> tuple[tuple[float, int], ...]:
        """Each bound and how many values are not above it; the last bound is infinite."""
        reached, rows = 0, list[tuple[float, int]]()
        for bound, count in zip((*self._bounds, float("inf")), self.counts, strict=True):
            reached += count
            rows.append((bound, reached))
        return tuple(rows)


class Meter:
    """The sum of counts that start again at zero with every process: it never falls."""

    __slots__ = ("_seen", "total")

    def __init__(self) -> None:
        self._seen: dict[object, float] = {}
        self.total = 0.0

    def read(self, source: object, value: float) -> None:
        """Take note of what a source has counted so far."""
        self.total += max(value - self._seen.pop(source, 0.0), 0.0)
        self._seen[source] = value
        if len(self._seen) > _SOURCES_KEPT:
            del self._seen[next(iter(self._seen))]


class CallTally:
    """The calls to one server that have ended."""

    __slots__ = ("_by_tool", "_fresh", "_result_bytes", "_seconds", "tools", "truncated")

    def __init__(self) -> None:
        self._fresh: list[tuple[str, Outcome, float, int | None]] = []
        """Ends that were noted and not yet counted: many at once take less time than one at a time."""
        self._by_tool: dict[tuple[str, str], int] = {}
        self._seconds, self._result_bytes = Histogram(SECONDS), Histogram(BYTES)
        self.tools: set[str] = set()
        self.truncated = 0
        """Results that were cut; counted by whoever cuts them."""

    @property
    def by_tool(self) -> Mapping[tuple[str, str], int]:
        """How many, by tool and outcome."""
        self._count_up()
        return self._by_tool

    @property
    def seconds(self) -> Histogram:
        """How long they took."""
        self._count_up()
        return self._seconds

    @property
    def result_bytes(self) -> Histogram:
        """How large their results were."""
        self._count_up()
        return self._result_bytes

    def ended(self, tool: str, outcome: Outcome, took: float, size: int | None = None) -> None:
        """Note a call that was admitted, and its result of that many bytes."""
        self._fresh.append((tool, outcome, took, size))
        if len(self._fresh) >= MOST_FRESH:
            self._count_up()

    def count(self, tool: str, outcome: Outcome) -> None:
        """Count a call, admitted or not."""
        key = (self._label(tool), outcome)
        self._by_tool[key] = self._by_tool.get(key, 0) + 1

    def _count_up(self) -> None:
        """Count what was noted."""
        for tool, outcome, took, size in self._fresh:
            self.count(tool, outcome)
            self._seconds.add(took)
            if size is not None:
                self._result_bytes.add(size)
        self._fresh.clear()

    def _label(self, tool: str) -> str:
        if tool not in self.tools and len(self.tools) >= MOST_TOOLS:
            return OTHER
        self.tools.add(tool)
        return tool


class ServerTally:
    """Everything that is counted of one server."""

    def __init__(self) -> None:
        self.calls = CallTally()
        self.restarts: Counter[str] = Counter()
        """By reason."""
        self.exits: Counter[str] = Counter()
        """By kind."""
        self.start_seconds: float | None = None
        """How long the last start took that ended well."""
        self.noise = Meter()
        self.stderr_bytes = Meter()
        self._starting: dict[object, float] = {}

    def moved(
        self, before: ServerState, after: ServerState, *, end: End | None, at: float, source: object
    ) -> None:
        """Count a change of phase; `source` tells apart two actors of one name, as in a reload."""
        if end is not None:
            self.exits[exit_kind(before.phase, end)] += 1
        if after.run > before.run > 0:
            self.restarts[restart_reason(before.phase)] += 1
        began = self._starting.pop(source, None)
        if isinstance(after.phase, Starting):
            self._starting[source] = at
        elif isinstance(after.phase, Ready) and began is not None:
            self.start_seconds = at - began


class Counters:
    """Everything that is counted in one life of the daemon."""

    def __init__(self) -> None:
        self._servers: dict[str, ServerTally] = {}
        self.refused: Counter[str] = Counter()
        """Calls that could not even be matched with a server, by outcome."""
        self.requests: dict[tuple[str, str], int] = {}
        """Requests to the control socket that were answered, by method and code."""
        self.reloads: Counter[str] = Counter()
        """By result."""
        self.last_reload = 0.0
        """When the configuration was last read and could be used, in seconds since 1970."""
        self.last_reload_ok = True
        """Whether all of it was done when it was last read."""

    def server(self, name: str) -> ServerTally:
        """The tally of that name; a new one when there is none."""
        tally = self._servers.get(name)
        if tally is None:
            tally = self._servers[name] = ServerTally()
        return tally

    def forget_all_but(self, names: Collection[str]) -> None:
        """Drop what was counted of servers that are gone."""
        for name in self._servers.keys() - set(names):
            del self._servers[name]

    def refuse(self, tool: str, data: Mapping[str, object]) -> None:
        """Count a call that no desk has taken; `data` is that of its error."""
        outcome, server = Outcome(str(data.get("outcome", Outcome.REJECTED))), data.get("server")
        tally = self._servers.get(server) if isinstance(server, str) else None
        if tally is None:
            self.refused[outcome.value] += 1
        else:
            tally.calls.count(tool, outcome)

    def answered(self, method: str, code: str) -> None:
        """Count an answer; the method must be one that exists, or `UNKNOWN`."""
        key = (method, code)
        self.requests[key] = self.requests.get(key, 0) + 1

    def reloaded(self, *, usable: bool, ok: bool, at: float) -> None:
        """Count a reload: done, done but for a part that failed, or refused."""
        self.last_reload_ok = ok
        if usable:
            self.last_reload = at
        self.reloads[reload_result(usable=usable, ok=ok)] += 1


RELOAD_RESULTS = ("ok", "failed", "refused")


def reload_result(*, usable: bool, ok: bool) -> str:
    """`failed`: the files were used, and a part is wrong or did not come up; `refused`: nothing changed."""
    if not usable:
        return "refused"
    return "ok" if ok else "failed"


EXIT_KINDS = ("clean", "error", "signal", "stopped", "start_timeout", "lost", "unhealthy", "cannot_start")


def exit_kind(before: Phase, end: End) -> str:
    """How a run ended, in one word of `EXIT_KINDS`."""
    if isinstance(before, Stopping | Killing):
        return _stop_kind(before.cause)
    if end.signal is not None:
        return "signal"
    if end.code is None:
        return "cannot_start" if isinstance(before, Starting) else "lost"
    return "clean" if end.code == 0 else "error"


def _stop_kind(cause: StopCause) -> str:
    match cause:
        case StopCause.REQUESTED | StopCause.RESTART | StopCause.IDLE:
            return "stopped"
        case StopCause.START_TIMEOUT:
            return "start_timeout"
        case StopCause.LOST:
            return "lost"
        case StopCause.UNHEALTHY:
            return "unhealthy"
    assert_never(cause)


RESTART_REASONS = ("failure", "call", "requested")


def restart_reason(before: Phase) -> str:
    """Why a run that is not the first began, in one word of `RESTART_REASONS`."""
    match before:
        case Backoff():
            return "failure"
        case Idle():
            return "call"
        case Stopped() | Starting() | Ready() | Stopping() | Killing() | Unavailable():
            return "requested"
    assert_never(before)
