"""Runs that part: the server's life goes on beside their last requests, and a stop ends those too."""

import pytest
from msgspec.structs import replace

from supervisor.core.lifecycle import MOST_LINGERING, step
from supervisor.core.phases import (
    Abort,
    Backoff,
    Close,
    Command,
    DeadlinePassed,
    Effect,
    End,
    Ended,
    Event,
    Goal,
    Idle,
    KillRequested,
    Lost,
    Open,
    Opened,
    Parted,
    Phase,
    Policy,
    Ready,
    RestartRequested,
    ServerState,
    StartRequested,
    StopCause,
    Stopped,
    StopRequested,
    Unavailable,
    Unhealthy,
    Wanted,
)
from supervisor.core.restart import RestartPolicy
from tests.core.lifecycle_support import (
    BACKOFF,
    GIVEN_UP,
    NEW,
    NOW,
    READY,
    STARTING,
    at,
    check,
    closing,
    killing,
)

REMOTE = Policy(restart=RestartPolicy(mode="on-failure"))
REFUSED = End("cannot be reached: Connection refused")
GONE = End("session closed")


def beside(phase: Phase, *runs: int, goal: Goal = Goal.UP) -> ServerState:
    """Run 3 is in this phase, or was the last, and these linger."""
    return replace(at(phase, goal=goal), lingering=runs)


def test_a_run_that_parts_is_over_at_once_and_another_one_begins_beside_it() -> None:
    parted = step(at(READY), Parted(3, REFUSED), REMOTE, now=NOW)
    assert isinstance(parted.state.phase, Backoff)
    assert parted.state.lingering == (3,)
    assert parted.reason.startswith(REFUSED.detail)

    begun = step(parted.state, DeadlinePassed(), REMOTE, now=parted.state.phase.deadline)
    check(begun, NEW, (Open(4),), "backoff over")

    opened = step(begun.state, Opened(4), REMOTE, now=NOW + 9)
    assert isinstance(opened.state.phase, Ready)

    cleared = step(opened.state, Ended(3, GONE), REMOTE, now=NOW + 10)
    assert cleared.state == replace(opened.state, lingering=())
    assert cleared.effects == ()


def test_a_run_that_parts_for_good_leaves_its_server_unavailable() -> None:
    got = step(at(READY), Parted(3, End("needs credentials", hopeless=True)), REMOTE, now=NOW)

    check(got, Unavailable("needs credentials"), (), "needs credentials")
    assert got.state.lingering == (3,)


@pytest.mark.parametrize("fact", [Opened(3), Lost(3, "lost"), Unhealthy(3, "silent"), Parted(3, REFUSED)])
def test_of_a_run_that_has_parted_only_the_end_counts(fact: Event) -> None:
    before = beside(BACKOFF, 3)

    assert step(before, fact, REMOTE, now=NOW).state == before


@pytest.mark.parametrize("before", [Idle(), BACKOFF, GIVEN_UP])
@pytest.mark.parametrize(
    ("wish", "cause", "after"),
    [
        (StopRequested(), StopCause.REQUESTED, Stopped()),
        (RestartRequested(), StopCause.RESTART, NEW),
    ],
)
def test_a_stop_or_a_restart_gives_what_lingers_its_grace_and_comes_after_it(
    before: Phase, wish: Command, cause: StopCause, after: Phase
) -> None:
    got = step(beside(before, 2, 3), wish, REMOTE, now=NOW)
    check(got, replace(closing(cause, str(cause)), over=True), (), str(cause))

    one = step(got.state, Ended(2, GONE), REMOTE, now=NOW)
    assert one.state.phase == got.state.phase
    both = step(one.state, Ended(3, GONE), REMOTE, now=NOW)

    assert both.state.phase == after
    assert "its last requests have ended" in both.reason


def test_what_lingers_is_dropped_when_the_grace_of_a_stop_is_over() -> None:
    stopping = step(beside(BACKOFF, 2, 3), StopRequested(), REMOTE, now=NOW).state
    got = step(stopping, DeadlinePassed(), REMOTE, now=NOW)

    check(
        got,
        replace(killing(StopCause.REQUESTED, "stop requested"), over=True),
        (Abort(2), Abort(3)),
        "out of time, killing",
    )
    assert step(got.state, Ended(2, GONE), REMOTE, now=NOW).state.lingering == (3,)


@pytest.mark.parametrize(
    ("before", "effects"),
    [
        (BACKOFF, (Abort(2),)),
        (READY, (Abort(2), Abort(3))),
        (closing(StopCause.LOST), (Abort(2), Abort(3))),
        (killing(StopCause.LOST), (Abort(2), Abort(3))),
    ],
)
def test_a_kill_drops_what_lingers_at_once(before: Phase, effects: tuple[Effect, ...]) -> None:
    got = step(beside(before, 2), KillRequested(), REMOTE, now=NOW)

    assert got.effects == effects
    assert got.state.goal is Goal.DOWN


def test_a_stop_of_a_run_waits_for_what_lingers_of_earlier_ones() -> None:
    stopping = step(beside(READY, 2), StopRequested(), REMOTE, now=NOW)
    assert stopping.effects == (Close(3),)

    ended = step(stopping.state, Ended(3, GONE), REMOTE, now=NOW)
    assert ended.state.phase == replace(stopping.state.phase, over=True)
    assert ended.reason == "session closed; its last requests may still end"

    assert step(ended.state, Ended(2, GONE), REMOTE, now=NOW).state.phase == Stopped()


def test_trouble_of_a_later_run_does_not_end_what_lingers() -> None:
    timed_out = step(beside(STARTING, 2), DeadlinePassed(), REMOTE, now=NOW)
    assert timed_out.effects == (Close(3),)
    killed = step(timed_out.state, DeadlinePassed(), REMOTE, now=NOW)
    assert killed.effects == (Abort(3),)

    ended = step(killed.state, Ended(3, GONE), REMOTE, now=NOW)
    assert isinstance(ended.state.phase, Backoff)
    assert ended.state.lingering == (2,)


def test_a_start_or_a_call_goes_beside_what_lingers() -> None:
    for wish in (StartRequested(), Wanted()):
        got = step(beside(BACKOFF, 3), wish, REMOTE, now=NOW)

        assert (got.state.phase, got.state.lingering, got.effects) == (NEW, (3,), (Open(4),))


def test_a_run_that_parts_while_it_is_stopped_keeps_the_grace_of_that_stop() -> None:
    before = at(closing(StopCause.REQUESTED), goal=Goal.DOWN)
    got = step(before, Parted(3, REFUSED), REMOTE, now=NOW)
    check(
        got,
        replace(closing(StopCause.REQUESTED), over=True),
        (),
        f"{REFUSED.detail}; its last requests may still end",
    )

    assert step(got.state, Ended(3, GONE), REMOTE, now=NOW).state.phase == Stopped()


def test_what_has_no_run_cannot_part_from_one() -> None:
    assert step(at(Stopped(), goal=Goal.DOWN), Parted(3, REFUSED), REMOTE, now=NOW).state.lingering == ()


def test_when_too_many_linger_the_oldest_is_dropped() -> None:
    runs = tuple(range(10, 10 + MOST_LINGERING))
    before = replace(beside(READY, *runs), run=99)

    got = step(before, Parted(99, REFUSED), REMOTE, now=NOW)

    assert got.effects == (Abort(10),)
    assert got.state.lingering == (*runs, 99)
