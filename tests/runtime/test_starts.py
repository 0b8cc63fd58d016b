"""Servers that start together take turns; one that is slow or stopped holds nobody up."""

from pathlib import Path

import anyio
import pytest
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core.ringlog import RingLog
from supervisor.runtime.conversation import Dialect, Listener
from supervisor.runtime.process import Command
from supervisor.runtime.starts import Starts
from supervisor.runtime.stdio import Host, Program, StdioRun
from tests.runtime.support import ENVIRON, LOOPS, PATIENCE, fake, staged, starts, until

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]

NEVER = 3600.0


async def _no_tools(_definitions: list[Raw]) -> None:
    """What nobody lists."""


NOBODY = Listener(_no_tools, lambda _params: None)


async def test_only_so_many_start_at_once(host: Host, tmp_path: Path) -> None:
    capped, log = replace(host, starts=Starts(most=1, hold=NEVER)), tmp_path / "log"
    async with staged(capped, fake("--slow-start", "60", "--log", log)):
        await until(lambda: starts(log) == 1)

        async with staged(capped, fake("--log", log)) as second:
            await anyio.wait_all_tasks_blocked()

            assert second.run.pid is None
            assert second.events == []  # above all no `Launched`: its time does not run yet
            assert starts(log) == 1


async def test_one_that_answers_lets_the_next_begin(host: Host) -> None:
    capped = replace(host, starts=Starts(most=1, hold=NEVER))
    async with staged(capped, fake()) as first, staged(capped, fake()) as second:
        await first.opened()
        await second.opened()


async def test_one_that_ends_lets_the_next_begin(host: Host) -> None:
    capped = replace(host, starts=Starts(most=1, hold=NEVER))
    async with staged(capped, fake("--exit-at", "spawn")) as first, staged(capped, fake()) as second:
        await first.ended()
        await second.opened()


async def test_one_that_is_slow_makes_room_after_a_while(host: Host) -> None:
    capped = replace(host, starts=Starts(most=1, hold=0.01))
    async with staged(capped, fake("--slow-start", "60")), staged(capped, fake()) as second:
        await second.opened()


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_one_that_waits_for_its_turn_can_be_stopped(host: Host, tmp_path: Path, way: str) -> None:
    capped, log = replace(host, starts=Starts(most=1, hold=NEVER)), tmp_path / "log"
    async with (
        staged(capped, fake("--slow-start", "60", "--log", log)),
        staged(capped, fake("--log", log)) as second,
    ):
        await until(lambda: starts(log) == 1)
        getattr(second.run, way)()

        with anyio.fail_after(PATIENCE):
            end = await second.ended()

        assert end.detail == "stopped before it was started"
        assert starts(log) == 1


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_one_that_is_stopped_before_it_begins_does_not_stand_among_the_doubtful(
    host: Host, way: str
) -> None:
    paced = replace(host, starts=Starts(pace=NEVER))
    await paced.starts.doubt()  # whoever comes next waits for an hour
    run = StdioRun(
        1, Program("server", Command(fake(), ENVIRON), Dialect()), paced, RingLog(), NOBODY, doubtful=True
    )
    getattr(run, way)()

    with anyio.fail_after(PATIENCE):
        end = await run.live(lambda _: None)

    assert end.detail == "stopped before it was started"
