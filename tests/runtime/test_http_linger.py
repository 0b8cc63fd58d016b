"""A server that takes no connections has lost its run, but not the calls that it already has.

Each test has a server that goes on with its open requests while it cannot be reached, and may return.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.core.phases import KillRequested, Ready, Stopped
from supervisor.errors import Outcome, ServerDied, TimedOut
from supervisor.runtime.fleet import Fleet
from tests.runtime.fleet_support import Asked, Build, reach
from tests.runtime.http_support import Served, serving, sockets
from tests.runtime.support import PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


class Scene:
    """A server that has calls and cannot be reached."""

    def __init__(self, directory: Path, served: Served, fleet: Fleet) -> None:
        self.served, self.fleet, self.member = served, fleet, fleet.member("remote")
        self.before, self._answers, self._returns = sockets(), directory / "answer", directory / "return"
        self.lingering: list[Asked] = []

    def call(self, tool: str, **fields: Any) -> Asked:
        return Asked(self.fleet, f"remote_{tool}", **fields)

    async def linger(self, *, calls: int = 1, **fields: Any) -> None:
        """Have calls under way, lose the server, and see that it is given up at once."""
        arguments = {"file": str(self._answers)}
        self.lingering = [self.call("wait_for", arguments=arguments, **fields) for _ in range(calls)]
        await until(lambda: len(self.served.ran("wait_for")) >= calls)
        assert await self.call("shut", arguments={"until": str(self._returns)}).text() == "shut"
        with anyio.fail_after(PATIENCE):
            while self.member.ready:
                # One may still meet a connection that is about to go, or wait for the return.
                await self.call("echo", timeout=0.3).end()
        assert self.view.state != "connected"
        assert self.lingers == 1

    @property
    def view(self) -> Any:
        return self.fleet.summary("remote")

    @property
    def lingers(self) -> int:
        return len(self.member.actor.state.lingering)

    def answer(self) -> None:
        """Let the calls be answered that the server has."""
        self._answers.touch()

    async def come_back(self) -> None:
        """Let the server be reached again, and wait until it is."""
        self._returns.touch()
        await reach(self.fleet, "remote", Ready)

    async def all_gone(self) -> None:
        """Wait until nothing lingers, in the daemon and in the kernel."""
        await until(lambda: not self.lingers)


@asynccontextmanager
async def lingering(
    build: Build, directory: Path, *options: object, era: str = "legacy", calls: int = 1, **keys: Any
) -> AsyncGenerator[Scene]:
    """Have a fleet of one server, which has lost its run and has calls."""
    restart = {"policy": "on-failure", "delay": 0.1, "maxDelay": 0.2}
    with serving(directory, "--era", era, *options) as served:
        async with build.up({"remote": {"url": served.url, "restart": restart, **keys}}) as fleet:
            scene = Scene(directory, served, fleet)
            await scene.linger(calls=calls)
            yield scene


@ERAS
async def test_calls_under_way_end_by_themselves_while_the_server_is_away(
    era: str, build: Build, tmp_path: Path
) -> None:
    async with lingering(build, tmp_path, era=era, calls=20, stopGrace=0.1) as scene:
        tries = scene.member.actor.state.run
        await until(lambda: scene.member.actor.state.run >= tries + 3)
        assert scene.view.state != "connected"
        assert scene.view.pending == 20

        scene.answer()

        assert [await call.text() for call in scene.lingering] == ["waited"] * 20
        await scene.all_gone()
        assert scene.view.pending == 0
        assert len(scene.served.ran("wait_for")) == 20


@ERAS
async def test_a_server_that_returns_is_connected_while_its_old_calls_go_on(
    era: str, build: Build, tmp_path: Path
) -> None:
    async with lingering(build, tmp_path, era=era) as scene:
        await scene.come_back()
        assert scene.view.state == "connected"
        assert await scene.call("echo", arguments={"text": "new"}).text() == "new"
        assert (scene.lingers, scene.view.pending) == (1, 1)

        scene.answer()

        assert await scene.lingering[0].text() == "waited"
        await scene.all_gone()
        assert scene.member.ready


async def test_a_call_that_lingers_keeps_its_place_among_those_at_once(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, maxConcurrency=2) as scene:
        await scene.come_back()
        first, second = (scene.call("wait_for", arguments={"file": f"{tmp_path}/{n}"}) for n in "12")
        await until(lambda: len(scene.served.ran("wait_for")) == 2)
        assert scene.member.desk.queued == 1

        scene.answer()

        await until(lambda: len(scene.served.ran("wait_for")) == 3)
        (tmp_path / "1").touch()
        (tmp_path / "2").touch()
        assert [await call.text() for call in (first, second)] == ["waited", "waited"]


async def test_a_call_that_lingers_has_its_own_deadline_and_its_server_is_told(
    build: Build, tmp_path: Path
) -> None:
    async with lingering(build, tmp_path, callTimeout=1.5) as scene:
        await scene.come_back()

        end = await scene.lingering[0].end()

        assert isinstance(end, TimedOut)
        assert end.data["outcome"] == Outcome.TIMED_OUT
        await scene.all_gone()
        assert scene.served.heard("notifications/cancelled")


async def test_what_a_server_asks_during_a_call_that_lingers_is_answered(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with build.up({"remote": {"url": served.url}}) as fleet:
            scene = Scene(tmp_path, served, fleet)
            asks = scene.call("ask_back", arguments={"after": f"{tmp_path}/ask", "method": "ping"})
            await until(lambda: served.ran("ask_back"))
            await scene.linger()
            await scene.come_back()

            (tmp_path / "ask").touch()

            assert await asks.text() == "{}"
            scene.answer()


async def test_a_session_is_ended_after_its_last_call_and_not_before(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path) as scene:
        (old,) = {head["mcp-session-id"] for head in scene.served.heard("tools/call")}
        await scene.come_back()
        assert scene.served.heard("DELETE") == []

        scene.answer()

        await scene.all_gone()
        assert [head["mcp-session-id"] for head in scene.served.heard("DELETE")] == [old]


async def test_a_session_that_the_next_run_is_in_too_is_not_ended(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, "--one-session") as scene:
        await scene.come_back()
        scene.answer()
        await scene.all_gone()

        assert scene.served.heard("DELETE") == []
        assert await scene.call("echo", arguments={"text": "still"}).text() == "still"


# What ends it.


async def test_a_stop_gives_what_lingers_its_grace(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, stopGrace=30) as scene:
        async with anyio.create_task_group() as tg:
            tg.start_soon(scene.fleet.stop_server, "remote")
            await until(lambda: scene.view.state == "stopping")
            scene.answer()

        assert await scene.lingering[0].text() == "waited"
        assert (scene.view.state, scene.lingers) == ("stopped", 0)


@pytest.mark.parametrize("returned", [True, False])
async def test_a_stop_drops_what_lingers_after_its_grace(
    returned: bool, build: Build, tmp_path: Path
) -> None:
    async with lingering(build, tmp_path, stopGrace=0.2, calls=10) as scene:
        if returned:
            await scene.come_back()

        with anyio.fail_after(PATIENCE):
            await scene.fleet.stop_server("remote")

        ends = [await call.end() for call in scene.lingering]
        assert {type(end) for end in ends} == {ServerDied}
        assert {end.data["outcome"] for end in ends} == {Outcome.UNKNOWN}
        assert (scene.view.state, scene.view.pending, scene.lingers) == ("stopped", 0, 0)
        assert sockets() < scene.before


async def test_a_kill_drops_what_lingers_at_once(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, stopGrace=600) as scene:
        scene.member.actor.post(KillRequested())
        await reach(scene.fleet, "remote", Stopped)

        assert isinstance(await scene.lingering[0].end(), ServerDied)


async def test_a_restart_ends_what_lingers_and_comes_up(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, stopGrace=0.2) as scene:
        await scene.come_back()

        with anyio.fail_after(PATIENCE):
            await scene.fleet.restart_server("remote")

        assert isinstance(await scene.lingering[0].end(), ServerDied)
        assert (scene.view.state, scene.lingers) == ("connected", 0)


async def test_a_fleet_that_stops_ends_what_lingers_first(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, stopGrace=0.2, calls=5) as scene:
        pass

    assert {type(await call.end()) for call in scene.lingering} == {ServerDied}


async def test_a_server_that_is_removed_finishes_what_lingers(build: Build, tmp_path: Path) -> None:
    async with lingering(build, tmp_path, stopGrace=0.2) as scene:
        member = scene.fleet.members.pop("remote")
        scene.fleet.retire(member)
        await anyio.wait_all_tasks_blocked()
        assert scene.lingering[0].reply.ends == []

        scene.answer()

        assert await scene.lingering[0].text() == "waited"
        await until(lambda: not scene.fleet.retiring)
        assert sockets() < scene.before
