"""What follows the end of a run: a stop, a wait, a new try, or nothing more; one row per rule."""

import pytest
from msgspec.structs import replace

from supervisor.core.lifecycle import step
from supervisor.core.phases import (
    Backoff,
    End,
    Ended,
    Goal,
    Idle,
    Phase,
    Ready,
    RestartRequested,
    Step,
    StopCause,
    Stopped,
    Unavailable,
    Wanted,
)
from tests.core.lifecycle_support import (
    ALWAYS,
    BACKOFF,
    GIVEN_UP,
    LAZY,
    NOW,
    ON_FAILURE,
    READY,
    STARTING,
    Stage,
    at,
    check,
    closing,
    killing,
    turn,
)

CRASH = End("exited with code 1", code=1)
LEFT = End("exited with code 0", code=0)


@pytest.mark.parametrize("before", [closing(StopCause.REQUESTED), killing(StopCause.RESTART)])
def test_the_end_of_an_unwanted_server_is_its_stop(before: Phase) -> None:
    got = turn(before, Ended(3, LEFT), ALWAYS, goal=Goal.DOWN)

    assert isinstance(got.state.phase, Stopped)
    assert got.effects == ()


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (
            closing(StopCause.REQUESTED, "stopped by an operator"),
            "stopped by an operator; exited with code 0",
        ),
        (killing(StopCause.REQUESTED, "kill requested"), "kill requested; exited with code 0"),
        (closing(StopCause.RESTART, "restart"), "restart; exited with code 0; stop requested"),
        (
            killing(StopCause.LOST, "closed its output"),
            "closed its output; exited with code 0; stop requested",
        ),
        (Stopped(), "exited with code 0"),
    ],
)
def test_the_end_that_we_caused_says_so_first(before: Phase, reason: str) -> None:
    assert turn(before, Ended(3, LEFT), goal=Goal.DOWN).reason == reason


@pytest.mark.parametrize("stage", [closing, killing])
def test_the_end_of_an_unused_server_leaves_it_waiting_for_a_call(stage: Stage) -> None:
    got = turn(stage(StopCause.IDLE), Ended(3, LEFT), LAZY)

    check(got, Idle(), (), "why; exited with code 0; waits for a call")


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (STARTING, "exited with code 1"),
        (READY, "exited with code 1"),
        (closing(StopCause.START_TIMEOUT, "too slow"), "too slow"),
        (killing(StopCause.LOST, "closed its standard output"), "closed its standard output"),
    ],
)
def test_by_default_an_unplanned_end_is_final_and_says_why(before: Phase, reason: str) -> None:
    check(turn(before, Ended(3, CRASH)), Unavailable(reason), (), reason)


@pytest.mark.parametrize(
    ("before", "reason", "soonest"),
    [
        pytest.param(STARTING, "exited with code 1", 100.5, id="a start that failed"),
        pytest.param(READY, "exited with code 1", NOW, id="a run that served for a while"),
        pytest.param(Ready(since=99.75), "exited with code 1", 100.25, id="a run that served for a moment"),
        pytest.param(closing(StopCause.UNHEALTHY, "no pong"), "no pong", 100.5, id="one that was unhealthy"),
    ],
)
def test_with_on_failure_an_unplanned_end_is_followed_by_a_new_try(
    before: Phase, reason: str, soonest: float
) -> None:
    got = turn(before, Ended(3, CRASH), ON_FAILURE)

    assert got.state.phase == Backoff(100.5, soonest)
    assert got.reason == f"{reason}; to be tried again, failure 1 of at most 5"
    assert (got.state.failures, got.state.due) == ((NOW,), 100.5)


@pytest.mark.parametrize(
    ("before", "clean"),
    [
        pytest.param(READY, True, id="it left by itself"),
        pytest.param(Ready(since=NOW), True, id="it left in the moment it was ready"),
        pytest.param(STARTING, False, id="it never answered"),
        pytest.param(closing(StopCause.UNHEALTHY, served=10.0), False, id="we closed it, it was unhealthy"),
        pytest.param(killing(StopCause.LOST, served=10.0), False, id="we killed it, it was lost"),
    ],
)
def test_only_a_ready_server_that_leaves_by_itself_with_code_0_ended_cleanly(
    before: Phase, clean: bool
) -> None:
    got = turn(before, Ended(3, LEFT), ON_FAILURE)

    assert isinstance(got.state.phase, Unavailable) == clean
    assert ("ended cleanly" in got.reason) == clean


def test_with_always_a_clean_end_is_followed_by_a_new_try() -> None:
    assert turn(READY, Ended(3, LEFT), ALWAYS).state.phase == Backoff(100.5, soonest=NOW)


def test_what_cannot_help_is_not_tried_again() -> None:
    got = turn(STARTING, Ended(3, End("no such file", hopeless=True)), ALWAYS)

    check(got, Unavailable("no such file"), (), "no such file")


@pytest.mark.parametrize("before", [Stopped(), Idle(), BACKOFF, GIVEN_UP])
def test_an_end_that_is_told_twice_changes_nothing(before: Phase) -> None:
    assert turn(before, Ended(3, CRASH), ALWAYS).state == at(before)


@pytest.mark.parametrize(
    ("since", "failures"),
    [
        pytest.param(40.0, (NOW,), id="a minute of health forgives"),
        pytest.param(40.1, (70.0, 80.0, NOW), id="less does not"),
    ],
)
def test_a_proven_server_starts_with_a_clean_record(since: float, failures: tuple[float, ...]) -> None:
    got = step(at(Ready(since), failures=(70.0, 80.0)), Ended(3, CRASH), ON_FAILURE, now=NOW)

    assert got.state.failures == failures


def test_a_server_that_keeps_failing_is_given_up_with_its_last_reason() -> None:
    state = at(STARTING, failures=(96.0, 97.0, 98.0, 99.0))
    got = step(state, Ended(3, CRASH), ON_FAILURE, now=NOW)

    reason = "exited with code 1; crash loop: 5 failures in 300 s"
    check(got, Unavailable(reason), (), reason)


def test_every_process_that_a_run_cost_counts() -> None:
    got = step(at(STARTING, failures=(99.0,)), Ended(3, replace(CRASH, deaths=2)), ON_FAILURE, now=NOW)

    assert got.state.failures == (99.0, NOW, NOW)
    assert "failure 3 of at most 5" in got.reason


@pytest.mark.parametrize(
    ("before", "failures", "doubtful"),
    [
        pytest.param(STARTING, (), True, id="never ready"),
        pytest.param(closing(StopCause.START_TIMEOUT), (), True, id="ready too late"),
        pytest.param(Ready(since=NOW - 0.5), (), False, id="a first failure may be anything"),
        pytest.param(Ready(since=NOW - 0.5), (99.0,), True, id="ready, but again and again for a moment"),
        pytest.param(Ready(since=NOW - 99.0), (99.0,), False, id="proven"),
    ],
)
def test_one_that_will_probably_fail_again_is_doubtful(
    before: Phase, failures: tuple[float, ...], doubtful: bool
) -> None:
    got = step(at(before, failures=failures), Ended(3, CRASH), ON_FAILURE, now=NOW)

    assert got.state.doubtful == doubtful
    assert not step(got.state, RestartRequested(), ON_FAILURE, now=NOW).state.doubtful


@pytest.mark.parametrize(
    ("asked", "phase"),
    [(60.0, Backoff(NOW + 60.0, NOW + 0.5, asked=True)), (0.1, Backoff(NOW + 0.5, NOW + 0.5))],
)
def test_a_server_that_asks_to_be_let_alone_is_let_alone_for_at_least_as_long(
    asked: float, phase: Phase
) -> None:
    end = End("asks to be let alone", retry_after=asked)

    assert turn(STARTING, Ended(3, end), ON_FAILURE).state.phase == phase


def test_a_call_does_not_cut_short_what_the_server_asked_for() -> None:
    alone = Backoff(NOW + 60.0, asked=True)

    assert turn(alone, Wanted(), ON_FAILURE) == Step(at(alone))


@pytest.mark.parametrize(
    ("before", "soonest"), [(STARTING, 100.5), (READY, NOW), (Ready(since=99.75), 100.25)]
)
def test_a_try_that_a_call_woke_and_that_fails_before_its_time_does_not_count(
    before: Phase, soonest: float
) -> None:
    state = replace(at(before, failures=(98.0, 99.0)), due=104.0)
    got = step(state, Ended(3, CRASH), ON_FAILURE, now=NOW)

    assert got.state.phase == Backoff(104.0, soonest)
    assert got.reason == "exited with code 1; to be tried again, failure 2 of at most 5"
    assert (got.state.failures, got.state.due) == ((98.0, 99.0), 104.0)


def test_the_schedule_waits_for_a_try_that_a_call_woke_shortly_before_it() -> None:
    got = step(replace(at(STARTING, failures=(99.0,)), due=100.1), Ended(3, CRASH), ON_FAILURE, now=NOW)

    assert got.state.phase == Backoff(100.5, soonest=100.5)


def test_a_failure_in_its_time_counts_though_a_call_had_asked_for_the_run() -> None:
    got = step(replace(at(STARTING, failures=(99.0,)), due=NOW), Ended(3, CRASH), ON_FAILURE, now=NOW)

    assert (got.state.failures, got.state.due) == ((99.0, NOW), 101.0)


def test_what_a_call_woke_and_proved_itself_counts_from_the_beginning() -> None:
    state = replace(at(Ready(since=30.0), failures=(20.0, 25.0)), due=120.0)
    got = step(state, Ended(3, CRASH), ON_FAILURE, now=NOW)

    assert (got.state.failures, got.state.phase) == ((NOW,), Backoff(100.5, soonest=NOW))
