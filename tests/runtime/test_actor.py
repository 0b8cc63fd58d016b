"""The actor against scripted runs, on a virtual clock: no process is started and no real second is spent."""

import logging
from collections.abc import Callable
from itertools import pairwise

import anyio
import pytest
from trio.testing import MockClock

from supervisor.core.phases import (
    Backoff,
    End,
    Event,
    Idle,
    KillRequested,
    Lost,
    Policy,
    Ready,
    RestartRequested,
    Starting,
    StartRequested,
    Stopped,
    Stopping,
    StopRequested,
    Unavailable,
    Wanted,
)
from supervisor.core.restart import RestartPolicy
from tests.runtime.actor_support import ScriptedRun, acting

pytestmark = pytest.mark.anyio

RESTARTED = Policy(restart=RestartPolicy(mode="on-failure"))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


async def test_a_server_is_started_and_stopped_and_every_step_is_told_with_its_reason() -> None:
    async with acting() as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        stage.actor.post(StopRequested())
        await stage.actor.reach(Stopped)

    assert stage.phases == ["Starting", "Ready", "Stopping", "Stopped"]
    assert [transition.reason for transition in stage.told] == [
        "start requested",
        "answers and has listed its tools",
        "stop requested",
        "stop requested; exited with code 0",
    ]


async def test_only_the_transition_that_follows_an_end_carries_it() -> None:
    async with acting() as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        stage.runs[0].die(End("killed by signal 9 (SIGKILL)", signal=9))
        await stage.actor.reach(Unavailable)

    ends = [transition.end for transition in stage.told]
    assert ends == [None, None, End("killed by signal 9 (SIGKILL)", signal=9)]


async def test_reaching_a_phase_that_is_so_takes_no_time() -> None:
    async with acting() as stage:
        state = await stage.actor.reach(Stopped, Ready)

        assert state is stage.actor.state


async def test_a_server_that_ignores_its_stop_is_killed_after_five_seconds() -> None:
    async with acting(ScriptedRun(stubborn=True)) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        began = anyio.current_time()
        stage.actor.post(StopRequested())
        await stage.actor.reach(Stopped)

    orders, moments = zip(*stage.runs[0].orders, strict=True)
    assert orders == ("close", "abort")
    assert moments == pytest.approx((began, began + 5.0))


async def test_a_kill_that_shows_nothing_is_repeated_every_two_seconds() -> None:
    async with acting(ScriptedRun(stubborn=True, deaf_for=2)) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        began = anyio.current_time()
        stage.actor.post(KillRequested())
        await stage.actor.reach(Stopped)

    orders, moments = zip(*stage.runs[0].orders, strict=True)
    assert orders == ("abort", "abort", "abort")
    assert moments == pytest.approx((began, began + 2.0, began + 4.0))


async def test_a_server_that_never_answers_is_given_up_after_its_start_timeout() -> None:
    async with acting(ScriptedRun(silent=True)) as stage:
        began = anyio.current_time()
        stage.actor.post(StartRequested())
        state = await stage.actor.reach(Unavailable)

        assert state.phase == Unavailable("did not answer within 30 s")
        assert anyio.current_time() - began == pytest.approx(30.0)


async def test_the_wait_for_a_turn_is_no_part_of_the_start_timeout() -> None:
    async with acting(ScriptedRun(queued_for=100.0)) as stage:
        stage.actor.post(StartRequested())

        assert isinstance((await stage.actor.reach(Ready, Unavailable)).phase, Ready)


async def test_a_stop_is_heard_while_a_server_starts() -> None:
    async with acting(ScriptedRun(silent=True)) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Starting)
        began = anyio.current_time()
        stage.actor.post(StopRequested())
        await stage.actor.reach(Stopped)

        assert anyio.current_time() == began


async def test_a_run_that_is_stopped_before_it_lives_still_ends() -> None:
    async with acting() as stage:
        stage.actor.post(StartRequested())
        await stage.actor.tell(StopRequested())
        await stage.actor.reach(Stopped)

    assert stage.phases == ["Starting", "Stopping", "Stopped"]


async def test_a_start_during_a_stop_leads_to_a_new_run_when_the_old_one_is_gone() -> None:
    async with acting(ScriptedRun(stubborn=True)) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        stage.actor.post(StopRequested())
        await stage.actor.reach(Stopping)
        stage.actor.post(StartRequested())
        state = await stage.actor.reach(Ready)

    assert state.run == 2
    assert stage.phases[-3:] == ["Killing", "Starting", "Ready"]


async def test_a_restart_replaces_the_run() -> None:
    async with acting() as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        await stage.actor.tell(RestartRequested())
        state = await stage.actor.reach(Ready)

    assert state.run == 2
    assert [order for order, _ in stage.runs[0].orders] == ["close"]
    assert stage.runs[1].orders == []


async def test_late_news_of_a_past_run_changes_nothing() -> None:
    async with acting() as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        await stage.actor.tell(RestartRequested())
        state = await stage.actor.reach(Ready)
        stage.runs[0].say(Lost(1, "late news"))
        await anyio.sleep(1)

        assert stage.actor.state == state


async def test_a_server_that_can_no_longer_answer_is_closed_for_that_reason() -> None:
    async with acting() as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        stage.runs[0].say(Lost(1, "closed its standard output"))
        state = await stage.actor.reach(Unavailable)

    assert state.phase == Unavailable("closed its standard output")
    assert [order for order, _ in stage.runs[0].orders] == ["close"]


async def test_a_run_that_raises_costs_only_itself_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with acting(ScriptedRun(crash="boom")) as stage:
            stage.actor.post(StartRequested())
            state = await stage.actor.reach(Unavailable)

    assert state.phase == Unavailable("RuntimeError: boom")
    assert [record.message for record in caplog.records] == ["echo: run 1 failed in a way nobody thought of"]


async def test_a_server_that_keeps_failing_is_tried_ever_more_rarely_and_then_given_up() -> None:
    started: list[float] = []

    class Failing(ScriptedRun):
        async def live(self, report: Callable[[Event], None]) -> End:
            started.append(anyio.current_time())
            return End("exited with code 1", code=1)

    async with acting(*(Failing() for _ in range(9)), policy=RESTARTED) as stage:
        stage.actor.post(StartRequested())
        state = await stage.actor.reach(Unavailable)

    assert state.phase == Unavailable("exited with code 1; crash loop: 5 failures in 300 s")
    pauses = [later - earlier for earlier, later in pairwise(started)]
    assert pauses == [pytest.approx(base * 1.05, rel=0.05) for base in (0.5, 1.0, 2.0, 4.0)]


async def test_a_call_cuts_the_backoff_short() -> None:
    async with acting(policy=RESTARTED) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        await anyio.sleep(10.0)
        stage.runs[0].die(End("exited with code 1", code=1))
        await stage.actor.reach(Backoff)
        began = anyio.current_time()
        stage.actor.post(Wanted())
        await stage.actor.reach(Ready)

        assert anyio.current_time() == began


async def test_a_server_that_is_back_is_found_soon_by_those_who_call_it_all_the_time() -> None:
    away = [ScriptedRun(crash="away") for _ in range(6)]
    async with acting(*away, policy=RESTARTED) as stage:
        began = anyio.current_time()
        stage.actor.post(StartRequested())
        while not isinstance(stage.actor.state.phase, Ready):
            await anyio.sleep(0.1)
            stage.actor.post(Wanted())

        took = anyio.current_time() - began
        assert 6 * 0.5 <= took <= 6 * 0.6
        assert len(stage.actor.state.failures) <= 3, "as the schedule counts: at once, after 0.5 s and 1.5 s"


async def test_an_unused_server_is_stopped_after_its_idle_timeout_and_woken_by_a_call() -> None:
    async with acting(policy=Policy(idle_timeout=60.0)) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        began = anyio.current_time()
        await stage.actor.reach(Idle)
        assert anyio.current_time() - began == pytest.approx(60.0)

        stage.actor.post(Wanted())
        await stage.actor.reach(Ready)


async def test_a_server_that_was_used_is_stopped_an_idle_timeout_after_its_last_use() -> None:
    last_use = 0.0
    async with acting(policy=Policy(idle_timeout=60.0), used_at=lambda: last_use) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        began = anyio.current_time()
        last_use = began + 45.0
        await stage.actor.reach(Idle)

        assert anyio.current_time() - began == pytest.approx(105.0)


async def test_whoever_tells_an_actor_something_goes_on_when_it_has_been_applied() -> None:
    async with acting() as stage:
        await stage.actor.tell(StartRequested())

        assert isinstance(stage.actor.state.phase, Starting)


async def test_what_is_said_to_an_actor_that_has_ended_is_dropped() -> None:
    async with acting() as stage:
        await stage.actor.reach(Stopped)

    stage.actor.post(KillRequested())
    await stage.actor.tell(StartRequested())

    assert stage.told == []


async def test_nobody_waits_for_an_actor_that_ends_before_it_reads() -> None:
    async with acting() as stage:
        await anyio.wait_all_tasks_blocked()
        stage.scope.cancel()
        with anyio.CancelScope(shield=True):
            await stage.actor.tell(StartRequested())

    assert stage.told == []
