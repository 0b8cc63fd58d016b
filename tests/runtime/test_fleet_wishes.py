"""Wishes that contradict each other: the last one counts, and whoever waits for another is told."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from supervisor.core.phases import Goal, Idle, Ready, Stopped, Stopping
from supervisor.errors import Cancelled, ServerUnavailable
from supervisor.runtime import proctable
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.starts import Starts
from supervisor.runtime.stdio import Host
from tests.runtime.fleet_support import Asked, Build, entry, only_child, reach
from tests.runtime.support import LOOPS, PATIENCE, fake, until

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]

LONG = 8.0
STUBBORN = ("--ignore-sigterm", "--ignore-eof")


@asynccontextmanager
async def stopping(fleet: Fleet) -> AsyncGenerator[None]:
    """The fleet is about to stop, and a server takes its time."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:
            tg.start_soon(fleet.stop)
            await fleet.members["fake"].actor.reach(Stopping)
            try:
                yield
            finally:
                fleet.kill()
    assert proctable.descendants(os.getpid()) == []


async def test_nothing_is_started_in_a_fleet_that_stops(build: Build) -> None:
    servers = {"fake": entry(*STUBBORN, stopGrace=LONG), "other": entry()}
    async with build.up(servers) as fleet, stopping(fleet):
        await reach(fleet, "other", Stopped)
        for name in servers:
            with pytest.raises(
                ServerUnavailable, match=f"cannot start server {name}: the daemon is stopping"
            ):
                await fleet.start_server(name)
            with pytest.raises(
                ServerUnavailable, match=f"cannot start server {name}: the daemon is stopping"
            ):
                await fleet.restart_server(name, wait=False)
        fleet.begin(fleet.members["other"])

        assert fleet.members["fake"].actor.state.goal is Goal.DOWN
        await anyio.wait_all_tasks_blocked()
        assert isinstance(fleet.members["other"].actor.state.phase, Stopped)


async def test_a_call_wakes_nobody_in_a_fleet_that_stops(build: Build) -> None:
    servers = {"fake": entry(*STUBBORN, stopGrace=LONG), "lazy": entry(idleTimeout=0.05)}
    fleet = build(servers)
    async with fleet.running():
        fleet.start()
        await reach(fleet, "fake", Ready)
        await reach(fleet, "lazy", Idle)
        async with stopping(fleet):
            for name in ("fake_echo", "lazy_echo"):
                with pytest.raises(ServerUnavailable, match=r"stopping|stop requested"):
                    Asked(fleet, name)


async def test_a_stop_ends_when_somebody_else_starts_the_server_meanwhile(build: Build) -> None:
    async with build.up({"fake": entry(*STUBBORN, stopGrace=LONG)}) as fleet:
        actor = fleet.members["fake"].actor

        async def start() -> None:
            await actor.reach(Stopping)
            await fleet.start_server("fake", wait=False)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tg:
                tg.start_soon(start)
                try:
                    with pytest.raises(
                        Cancelled, match="cannot stop server fake: somebody has started it again"
                    ):
                        await fleet.stop_server("fake")
                finally:
                    fleet.kill()


async def test_a_stop_that_is_done_before_the_next_start_is_a_stop(build: Build) -> None:
    async with build.up() as fleet:
        with anyio.fail_after(PATIENCE):
            await fleet.stop_server("fake")
            await fleet.start_server("fake")

        assert isinstance(fleet.members["fake"].actor.state.phase, Ready)


@asynccontextmanager
async def in_the_line_of_those_that_fail(build: Build, host: Host, tmp_path: Path) -> AsyncGenerator[Fleet]:
    """A fleet whose server waits an hour for its turn, and would start well."""
    broken = tmp_path / "broken"
    broken.touch()
    script = f'[ -e {broken} ] && exit 1; exec "$@"'
    restart = {"policy": "on-failure", "delay": 0.05}
    build.host = replace(host, starts=Starts(pace=3600.0))
    await build.host.starts.doubt()  # somebody else has had the first turn
    fleet = build({"fake": {"command": "sh", "args": ["-c", script, "sh", *fake()], "restart": restart}})
    async with fleet.running():
        fleet.start()
        await until(lambda: fleet.summary("fake").reason == "backoff over; waits for its turn to start")
        broken.unlink()
        yield fleet


async def test_a_call_pulls_its_server_out_of_the_line_of_those_that_fail(
    build: Build, host: Host, tmp_path: Path
) -> None:
    async with in_the_line_of_those_that_fail(build, host, tmp_path) as fleet:
        assert await Asked(fleet, "fake_echo", arguments={"n": 1}).text() == '{"n":1}'


@pytest.mark.parametrize("way", ["start", "restart", "stop and start"])
async def test_an_operator_pulls_a_server_out_of_that_line(
    build: Build, host: Host, tmp_path: Path, way: str
) -> None:
    async with in_the_line_of_those_that_fail(build, host, tmp_path) as fleet:
        with anyio.fail_after(PATIENCE):
            if way == "stop and start":
                await fleet.stop_server("fake")
            await (fleet.restart_server("fake") if way == "restart" else fleet.start_server("fake"))


async def test_what_an_operator_wanted_once_is_not_wanted_for_ever(
    build: Build, host: Host, tmp_path: Path
) -> None:
    async with in_the_line_of_those_that_fail(build, host, tmp_path) as fleet:
        await fleet.start_server("fake")
        await fleet.start_server("fake")  # it is up

        os.kill(only_child(), signal.SIGKILL)

        await until(lambda: fleet.summary("fake").reason == "backoff over; waits for its turn to start")
