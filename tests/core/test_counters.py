"""Counting: what is counted, under which labels, and that nothing ever falls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import counters
from supervisor.core.counters import (
    EXIT_KINDS,
    MOST_FRESH,
    MOST_TOOLS,
    OTHER,
    RESTART_REASONS,
    CallTally,
    Counters,
    Histogram,
    Meter,
    ServerTally,
    exit_kind,
    restart_reason,
)
from supervisor.core.phases import (
    Backoff,
    End,
    Goal,
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

PHASES: tuple[Phase, ...] = (
    Stopped(),
    Idle(),
    Starting(1.0),
    Ready(0.0),
    *(Stopping(1.0, cause, "why") for cause in StopCause),
    *(Killing(1.0, cause, "why") for cause in StopCause),
    Backoff(1.0),
    Unavailable("why"),
)
ENDS = (
    End("exited", code=0),
    End("exited", code=3),
    End("killed", signal=9),
    End("gone"),
    End("no", hopeless=True),
)


def state(phase: Phase, run: int = 1) -> ServerState:
    return ServerState(Goal.UP, phase, run)


@given(st.lists(st.floats(0, 1e9)))
def test_a_histogram_counts_every_value_once(values: list[float]) -> None:
    histogram = Histogram((1.0, 10.0, 100.0))
    for value in values:
        histogram.add(value)

    rows = histogram.cumulative()

    assert rows == tuple(
        (bound, sum(value <= bound for value in values)) for bound in (1.0, 10.0, 100.0, float("inf"))
    )
    assert histogram.total == pytest.approx(sum(values))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100))))
def test_a_meter_never_falls(readings: list[tuple[int, int]]) -> None:
    meter, before = Meter(), 0.0
    for source, value in readings:
        meter.read(source, value)
        assert meter.total >= before
        before = meter.total


def test_a_meter_adds_up_what_each_source_has_counted() -> None:
    meter = Meter()
    for source, value in (("old", 5), ("new", 2), ("old", 7), ("new", 4)):
        meter.read(source, value)

    assert meter.total == 7 + 4


def test_calls_are_counted_by_tool_and_outcome() -> None:
    tally = CallTally()
    tally.ended("echo", Outcome.OK, 0.01)
    tally.ended("echo", Outcome.OK, 0.02)
    tally.ended("echo", Outcome.TIMED_OUT, 60.0)

    assert tally.by_tool == {("echo", "ok"): 2, ("echo", "timed_out"): 1}
    assert tally.seconds.cumulative()[-1][1] == 3


def test_calls_are_counted_whether_or_not_anybody_looks() -> None:
    tally = CallTally()
    for _ in range(2 * MOST_FRESH + 1):
        tally.ended("echo", Outcome.OK, 0.01)

    assert tally.by_tool["echo", "ok"] == tally.seconds.cumulative()[-1][1] == 2 * MOST_FRESH + 1


def test_results_are_counted_by_size() -> None:
    tally = CallTally()
    tally.ended("echo", Outcome.OK, 0.01, 100)
    tally.ended("echo", Outcome.OK, 0.01, 10_000_000)
    tally.ended("echo", Outcome.CANCELLED, 0.01)

    assert tally.result_bytes.total == 10_000_100
    assert tally.result_bytes.cumulative()[-1][1] == 2


def test_tools_beyond_the_limit_are_counted_together() -> None:
    tally = CallTally()
    for number in range(MOST_TOOLS + 5):
        tally.count(f"tool_{number}", Outcome.OK)
    tally.count("tool_0", Outcome.CANCELLED)

    assert tally.by_tool[OTHER, "ok"] == 5
    assert tally.by_tool["tool_0", "cancelled"] == 1
    assert len(tally.tools) == MOST_TOOLS


@pytest.mark.parametrize(
    ("before", "end", "kind"),
    [
        (Ready(0.0), End("exited", code=0), "clean"),
        (Ready(0.0), End("exited", code=3), "error"),
        (Starting(1.0), End("killed", signal=9), "signal"),
        (Starting(1.0), End("cannot start"), "cannot_start"),
        (Ready(0.0), End("the stream ended"), "lost"),
        (Stopping(1.0, StopCause.REQUESTED, ""), End("killed", signal=15), "stopped"),
        (Killing(1.0, StopCause.RESTART, ""), End("killed", signal=9), "stopped"),
        (Stopping(1.0, StopCause.IDLE, ""), End("exited", code=0), "stopped"),
        (Stopping(1.0, StopCause.START_TIMEOUT, ""), End("killed", signal=15), "start_timeout"),
        (Stopping(1.0, StopCause.LOST, ""), End("killed", signal=15), "lost"),
        (Stopping(1.0, StopCause.UNHEALTHY, ""), End("killed", signal=15), "unhealthy"),
    ],
)
def test_an_end_is_of_the_kind_that_explains_it(before: Phase, end: End, kind: str) -> None:
    assert exit_kind(before, end) == kind


def test_every_end_and_every_restart_has_a_known_label() -> None:
    assert {exit_kind(before, end) for before in PHASES for end in ENDS} == set(EXIT_KINDS)
    assert {restart_reason(before) for before in PHASES} == set(RESTART_REASONS)


def test_only_a_run_after_the_first_is_a_restart() -> None:
    tally = ServerTally()
    tally.moved(state(Stopped(), 0), state(Starting(1.0), 1), end=None, at=0.0, source=1)
    assert not tally.restarts

    tally.moved(state(Backoff(1.0), 1), state(Starting(1.0), 2), end=None, at=1.0, source=1)
    assert tally.restarts == {"failure": 1}


def test_a_start_is_timed_when_it_ends_well_though_another_actor_starts_meanwhile() -> None:
    tally = ServerTally()
    tally.moved(state(Stopped(), 0), state(Starting(9.0)), end=None, at=1.0, source="old")
    tally.moved(state(Stopped(), 0), state(Starting(9.0)), end=None, at=2.0, source="new")
    tally.moved(state(Starting(9.0)), state(Ready(4.0)), end=None, at=4.0, source="old")
    tally.moved(state(Starting(9.0)), state(Unavailable("")), end=End("no"), at=9.0, source="new")
    tally.moved(state(Unavailable("")), state(Ready(4.0)), end=None, at=10.0, source="new")

    assert tally.start_seconds == 3.0
    assert tally.exits == {"cannot_start": 1}


def test_a_server_keeps_its_tally_until_it_is_gone() -> None:
    counted = Counters()
    kept, gone = counted.server("kept"), counted.server("gone")

    counted.forget_all_but({"kept"})

    assert counted.server("kept") is kept
    assert counted.server("gone") is not gone


@pytest.mark.parametrize("data", [{}, {"outcome": Outcome.REJECTED}, {"server": "nobody"}, {"server": None}])
def test_a_call_for_no_known_server_is_counted_without_one(data: dict[str, object]) -> None:
    counted = Counters()

    counted.refuse("tool", data)

    assert counted.refused == {"rejected": 1}


def test_a_call_that_a_known_server_could_not_take_is_counted_there() -> None:
    counted = Counters()
    tally = counted.server("files")

    counted.refuse("files_read", {"server": "files", "outcome": Outcome.NOT_SENT})

    assert tally.calls.by_tool == {("files_read", "not_sent"): 1}
    assert not counted.refused


def test_answers_are_counted_by_method_and_code() -> None:
    counted = Counters()
    for code in ("ok", "ok", "-32001"):
        counted.answered("servers/get", code)

    assert counted.requests == {("servers/get", "ok"): 2, ("servers/get", "-32001"): 1}


@pytest.mark.parametrize(
    ("usable", "ok", "result", "last"),
    [(True, True, "ok", 7.0), (True, False, "failed", 7.0), (False, False, "refused", 0.0)],
)
def test_a_reload_is_counted_by_its_result(usable: bool, ok: bool, result: str, last: float) -> None:
    counted = Counters()

    counted.reloaded(usable=usable, ok=ok, at=7.0)

    assert counted.reloads == {result: 1}
    assert (counted.last_reload, counted.last_reload_ok) == (last, ok)
    assert result in counters.RELOAD_RESULTS
