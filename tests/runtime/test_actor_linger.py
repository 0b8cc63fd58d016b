"""Runs that part: the actor has the next one beside them, on a virtual clock."""

import anyio
import pytest
from trio.testing import MockClock

from supervisor.core.phases import Backoff, End, Parted, Policy, Ready, StartRequested, Stopped, StopRequested
from supervisor.core.restart import RestartPolicy
from tests.runtime.actor_support import Stage, acting

pytestmark = pytest.mark.anyio

RESTARTED = Policy(restart=RestartPolicy(mode="on-failure"))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


REFUSED = End("cannot be reached")


def lingering(stage: Stage) -> set[int]:
    return set(stage.actor.state.lingering)


async def test_a_run_that_parts_lives_on_beside_the_next_one() -> None:
    async with acting(policy=RESTARTED) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        stage.runs[0].say(Parted(1, REFUSED))
        await stage.actor.reach(Backoff)
        await stage.actor.reach(Ready)
        assert lingering(stage) == {1}

        stage.runs[0].die(End("session closed"))
        await anyio.wait_all_tasks_blocked()

        assert lingering(stage) == set()
        assert [each.orders for each in stage.runs] == [[], []]
        assert [each.end for each in stage.told if each.end is not None] == [REFUSED]


async def test_a_stop_waits_for_what_lingers_and_drops_it_after_its_grace() -> None:
    async with acting(policy=RESTARTED) as stage:
        stage.actor.post(StartRequested())
        await stage.actor.reach(Ready)
        stage.runs[0].say(Parted(1, REFUSED))
        await stage.actor.reach(Backoff)
        await stage.actor.reach(Ready)
        began = anyio.current_time()
        stage.actor.post(StopRequested())
        await stage.actor.reach(Stopped)

    orders = [order for run in stage.runs for order, _ in run.orders]
    moments = [moment for run in stage.runs for _, moment in run.orders]
    assert orders == ["abort", "close"]
    assert moments == pytest.approx([began + 5.0, began])
    assert [each.end for each in stage.told if each.end is not None] == [
        REFUSED,
        End("exited with code 0", code=0),
    ]
    assert stage.phases[-3:] == ["Stopping", "Killing", "Stopped"]
