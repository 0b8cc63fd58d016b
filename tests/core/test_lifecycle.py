"""Each rule of a server's life, one row each: phase and event in, phase, orders and reason out."""

import pytest
from msgspec.structs import replace

from supervisor.core.lifecycle import step
from supervisor.core.phases import (
    Abort,
    Backoff,
    Close,
    DeadlinePassed,
    Effect,
    End,
    Ended,
    Event,
    Goal,
    Idle,
    KillRequested,
    Launched,
    Lost,
    Open,
    Opened,
    Phase,
    Policy,
    Ready,
    RestartRequested,
    Retuned,
    Starting,
    StartRequested,
    Step,
    StopCause,
    Stopped,
    StopRequested,
    Unhealthy,
    Wanted,
)
from tests.core.lifecycle_support import (
    ALWAYS,
    BACKOFF,
    GIVEN_UP,
    LAZY,
    NEVER,
    NEW,
    NOW,
    READY,
    STARTING,
    Stage,
    at,
    check,
    closing,
    killing,
    turn,
)

# Commands.


@pytest.mark.parametrize(
    ("before", "after", "effects", "reason"),
    [
        (Stopped(), NEW, (Open(4),), "start requested"),
        (Idle(), NEW, (Open(4),), "start requested"),
        (BACKOFF, NEW, (Open(4),), "start requested"),
        (GIVEN_UP, NEW, (Open(4),), "start requested"),
        (STARTING, STARTING, (), ""),
        (READY, READY, (), ""),
    ],
)
def test_a_start_begins_a_run_unless_there_is_one(
    before: Phase, after: Phase, effects: tuple[Effect, ...], reason: str
) -> None:
    got = turn(before, StartRequested(), goal=Goal.DOWN)

    check(got, after, effects, reason)
    assert got.state.goal is Goal.UP


@pytest.mark.parametrize("policy", [NEVER, LAZY])
def test_a_start_forgets_old_failures(policy: Policy) -> None:
    got = step(replace(at(GIVEN_UP, failures=(98.0, 99.0)), due=110.0), StartRequested(), policy, now=NOW)

    assert (got.state.failures, got.state.due) == ((), 0.0)


@pytest.mark.parametrize("before", [Stopped(), GIVEN_UP])
def test_a_start_of_a_lazy_server_waits_for_a_call(before: Phase) -> None:
    check(turn(before, StartRequested(), LAZY), Idle(), (), "waits for a first call")


@pytest.mark.parametrize("cause", StopCause)
@pytest.mark.parametrize("stage", [closing, killing])
@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (StartRequested(), "start requested during the stop"),
        (RestartRequested(), "restart requested during the stop"),
    ],
)
def test_a_start_during_any_stop_turns_it_into_a_restart(
    cause: StopCause, stage: Stage, wish: Event, reason: str
) -> None:
    got = turn(stage(cause), wish, goal=Goal.DOWN)
    check(got, stage(StopCause.RESTART), (), reason)

    after_the_end = step(got.state, Ended(3, End("exit 0", code=0)), NEVER, now=NOW)
    check(after_the_end, NEW, (Open(4),), "why; exit 0; starting again")


@pytest.mark.parametrize(
    ("before", "after", "effects", "reason"),
    [
        (STARTING, closing(StopCause.REQUESTED, "stop requested"), (Close(3),), "stop requested"),
        (READY, closing(StopCause.REQUESTED, "stop requested", served=10.0), (Close(3),), "stop requested"),
        (Idle(), Stopped(), (), "stop requested"),
        (BACKOFF, Stopped(), (), "stop requested"),
        (GIVEN_UP, Stopped(), (), "stop requested"),
        (Stopped(), Stopped(), (), ""),
        (closing(StopCause.LOST), closing(StopCause.LOST), (), ""),
        (killing(StopCause.LOST), killing(StopCause.LOST), (), ""),
    ],
)
def test_a_stop_closes_what_runs_and_forgets_the_rest(
    before: Phase, after: Phase, effects: tuple[Effect, ...], reason: str
) -> None:
    got = turn(before, StopRequested())

    check(got, after, effects, reason)
    assert got.state.goal is Goal.DOWN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (READY, closing(StopCause.REQUESTED, "stopped by an operator", served=10.0)),
        (BACKOFF, Stopped()),
    ],
)
def test_a_stop_says_who_wanted_it(before: Phase, after: Phase) -> None:
    got = turn(before, StopRequested("stopped by an operator"))

    assert (got.state.phase, got.reason) == (after, "stopped by an operator")


KILLED = killing(StopCause.REQUESTED, "kill requested")


@pytest.mark.parametrize(
    ("before", "after", "effects", "reason"),
    [
        (STARTING, KILLED, (Abort(3),), "kill requested, killing"),
        (READY, KILLED, (Abort(3),), "kill requested, killing"),
        (closing(StopCause.IDLE), killing(StopCause.REQUESTED), (Abort(3),), "kill requested, killing"),
        (killing(StopCause.LOST), killing(StopCause.LOST), (), ""),
        (Stopped(), Stopped(), (), ""),
        (Idle(), Stopped(), (), "stop requested"),
        (BACKOFF, Stopped(), (), "stop requested"),
        (GIVEN_UP, Stopped(), (), "stop requested"),
    ],
)
def test_a_kill_gives_no_grace(before: Phase, after: Phase, effects: tuple[Effect, ...], reason: str) -> None:
    got = turn(before, KillRequested())

    check(got, after, effects, reason)
    assert got.state.goal is Goal.DOWN


RESTARTING = closing(StopCause.RESTART, "restart requested")


@pytest.mark.parametrize(
    ("before", "after", "effects"),
    [
        (STARTING, RESTARTING, (Close(3),)),
        (READY, closing(StopCause.RESTART, "restart requested", served=10.0), (Close(3),)),
        (Stopped(), NEW, (Open(4),)),
        (Idle(), NEW, (Open(4),)),
        (BACKOFF, NEW, (Open(4),)),
        (GIVEN_UP, NEW, (Open(4),)),
    ],
)
def test_a_restart_ends_the_run_first_and_forgets_old_failures(
    before: Phase, after: Phase, effects: tuple[Effect, ...]
) -> None:
    got = step(at(before, failures=(98.0, 99.0)), RestartRequested(), NEVER, now=NOW)

    check(got, after, effects, "restart requested")
    assert got.state.failures == ()


@pytest.mark.parametrize(
    ("before", "after", "effects", "reason"),
    [
        (Idle(), NEW, (Open(4),), "a call wants it"),
        (BACKOFF, NEW, (Open(4),), "a call wants it, backoff cut short"),
        (Backoff(105.0, NOW), NEW, (Open(4),), "a call wants it, backoff cut short"),
        (Backoff(105.0, 100.4), Backoff(100.4, 100.4), (), "a call wants it soon"),
        (Backoff(100.4, 100.4), Backoff(100.4, 100.4), (), "a call wants it soon"),
        (closing(StopCause.IDLE), closing(StopCause.RESTART), (), "a call wants it"),
        (killing(StopCause.IDLE), killing(StopCause.RESTART), (), "a call wants it"),
        (closing(StopCause.LOST), closing(StopCause.LOST), (), ""),
        (killing(StopCause.REQUESTED), killing(StopCause.REQUESTED), (), ""),
        (Stopped(), Stopped(), (), ""),
        (STARTING, STARTING, (), ""),
        (READY, READY, (), ""),
        (GIVEN_UP, GIVEN_UP, (), ""),
    ],
)
def test_a_call_wakes_a_server_that_merely_waits(
    before: Phase, after: Phase, effects: tuple[Effect, ...], reason: str
) -> None:
    check(turn(before, Wanted()), after, effects, reason)


def test_a_call_does_not_undo_a_stop_that_was_asked_for() -> None:
    wanted = turn(closing(StopCause.IDLE), Wanted(), goal=Goal.DOWN)

    check(
        step(wanted.state, Ended(3, End("exit 0")), LAZY, now=NOW),
        Stopped(),
        (),
        "why; exit 0; stop requested",
    )


# Deadlines.


@pytest.mark.parametrize(
    ("before", "after", "effects", "reason"),
    [
        (
            STARTING,
            closing(StopCause.START_TIMEOUT, "did not answer within 30 s"),
            (Close(3),),
            "did not answer within 30 s",
        ),
        (
            closing(StopCause.LOST, served=7.0),
            killing(StopCause.LOST, served=7.0),
            (Abort(3),),
            "out of time, killing",
        ),
        (killing(StopCause.RESTART), killing(StopCause.RESTART), (Abort(3),), "out of time, killing"),
        (BACKOFF, NEW, (Open(4),), "backoff over"),
        (Ready(90.0, deadline=99.0), Ready(90.0), (), "no idle timeout"),
        (Stopped(), Stopped(), (), ""),
        (Idle(), Idle(), (), ""),
        (GIVEN_UP, GIVEN_UP, (), ""),
    ],
)
def test_a_deadline_leads_on(before: Phase, after: Phase, effects: tuple[Effect, ...], reason: str) -> None:
    check(turn(before, DeadlinePassed()), after, effects, reason)


@pytest.mark.parametrize(
    ("since", "used_at", "after", "reason"),
    [
        (30.0, 0.0, closing(StopCause.IDLE, "not used for 60 s", served=70.0), "not used for 60 s"),
        (30.0, 40.0, closing(StopCause.IDLE, "not used for 60 s", served=70.0), "not used for 60 s"),
        (30.0, 41.0, Ready(30.0, deadline=101.0), "still in use"),
        (41.0, 0.0, Ready(41.0, deadline=101.0), "still in use"),
        (30.0, NOW, Ready(30.0, deadline=160.0), "still in use"),
    ],
)
def test_an_idle_server_is_stopped_when_nobody_used_it_for_long(
    since: float, used_at: float, after: Phase, reason: str
) -> None:
    got = turn(Ready(since, deadline=NOW), DeadlinePassed(used_at), LAZY)

    assert got.state.phase == after
    assert got.reason == reason


@pytest.mark.parametrize(
    ("phase", "deadline"),
    [
        (Stopped(), None),
        (Idle(), None),
        (GIVEN_UP, None),
        (STARTING, 110.0),
        (READY, None),
        (Ready(90.0, deadline=150.0), 150.0),
        (closing(StopCause.LOST), 105.0),
        (killing(StopCause.LOST), 102.0),
        (BACKOFF, 105.0),
    ],
)
def test_a_phase_knows_its_deadline(phase: Phase, deadline: float | None) -> None:
    assert at(phase).deadline == deadline


# Facts.

EVERY_OTHER_PHASE = [Stopped(), Idle(), closing(StopCause.LOST), killing(StopCause.LOST), BACKOFF, GIVEN_UP]


@pytest.mark.parametrize(
    ("policy", "after"), [(NEVER, Ready(since=NOW)), (LAZY, Ready(since=NOW, deadline=160.0))]
)
def test_a_server_that_answers_is_ready(policy: Policy, after: Phase) -> None:
    check(turn(STARTING, Opened(3), policy), after, (), "answers and has listed its tools")


@pytest.mark.parametrize("before", [NEW, STARTING])
def test_the_time_to_start_runs_from_the_launch(before: Phase) -> None:
    check(turn(before, Launched(3)), Starting(deadline=130.0), (), "has its turn")


@pytest.mark.parametrize("before", [READY, *EVERY_OTHER_PHASE])
def test_a_launch_means_something_only_to_a_start(before: Phase) -> None:
    check(turn(before, Launched(3)), before, (), "")


def test_a_run_that_waits_for_its_turn_has_no_deadline() -> None:
    assert at(NEW).deadline is None


@pytest.mark.parametrize("before", [READY, *EVERY_OTHER_PHASE])
def test_an_answer_means_something_only_to_a_start(before: Phase) -> None:
    check(turn(before, Opened(3)), before, (), "")


@pytest.mark.parametrize(
    ("fact", "cause", "reason"),
    [
        (Lost(3, "closed its standard output"), StopCause.LOST, "closed its standard output"),
        (Unhealthy(3, "no pong"), StopCause.UNHEALTHY, "unhealthy: no pong"),
    ],
)
@pytest.mark.parametrize(("before", "served"), [(STARTING, 0.0), (READY, 10.0)])
def test_a_server_that_cannot_answer_is_closed(
    before: Phase, served: float, fact: Event, cause: StopCause, reason: str
) -> None:
    check(turn(before, fact), closing(cause, reason, served=served), (Close(3),), reason)


@pytest.mark.parametrize("before", EVERY_OTHER_PHASE)
@pytest.mark.parametrize("fact", [Lost(3, "gone"), Unhealthy(3, "no pong")])
def test_bad_news_of_what_does_not_run_changes_nothing(before: Phase, fact: Event) -> None:
    check(turn(before, fact), before, (), "")


@pytest.mark.parametrize("phase", [STARTING, READY, *EVERY_OTHER_PHASE])
@pytest.mark.parametrize(
    "fact",
    [
        Launched(2),
        Opened(2),
        Lost(2, "old"),
        Unhealthy(2, "old"),
        Ended(2, End("old")),
        Ended(4, End("unborn")),
    ],
)
def test_a_fact_of_another_run_changes_nothing(phase: Phase, fact: Event) -> None:
    assert turn(phase, fact, ALWAYS) == Step(at(phase))


def test_a_new_idle_timeout_holds_for_a_server_that_is_ready() -> None:
    got = turn(READY, Retuned(used_at=95.0), LAZY)

    assert got.state.phase == Ready(90.0, deadline=155.0)


def test_a_new_policy_disturbs_no_other_phase() -> None:
    assert turn(STARTING, Retuned(), LAZY).state.phase == STARTING
