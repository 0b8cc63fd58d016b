"""The reloader's task: who asks, who is answered, and what is refused."""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.core.phases import Ready
from supervisor.core.servers import Loaded
from supervisor.errors import BadConfig, SupervisorError
from supervisor.runtime.bus import Bus, News, ReloadEvent
from supervisor.runtime.configfile import load
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.reload import Reloaded, Reloader
from supervisor.runtime.stdio import Host
from tests.runtime.support import ENVIRON, PATIENCE, fake, until

pytestmark = pytest.mark.usefixtures("nothing_left")


def entry(*options: object, **keys: Any) -> dict[str, Any]:
    command, *arguments = fake(*options)
    return {"command": command, "args": arguments, "stopGrace": 0.3, **keys}


class Stage:
    """A fleet with its reloader, and everything that was said of reloads."""

    def __init__(self, directory: Path, host: Host) -> None:
        self.path, self.reads = directory / "mcp.json", 0
        self.write({})
        self.events: list[ReloadEvent] = []
        bus = Bus()
        bus.subscribe(self._hear)
        loaded = self.load()
        self.fleet = Fleet(loaded, host, ENVIRON, bus)
        self.reloader = Reloader(self.fleet, loaded, self.load, bus)

    def write(self, servers: dict[str, Any], **settings: Any) -> None:
        self.path.write_text(json.dumps({"mcpServers": servers, "supervisor": settings}))

    def load(self) -> Loaded:
        self.reads += 1
        return load([self.path], ENVIRON)

    def _hear(self, news: News) -> None:
        if isinstance(news, ReloadEvent):
            self.events.append(news)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self.fleet.running(), anyio.create_task_group() as tg:
            tg.start_soon(self.reloader.run)
            with anyio.fail_after(PATIENCE):
                yield
            tg.cancel_scope.cancel()


@pytest.fixture
def stage(tmp_path: Path, host: Host) -> Stage:
    return Stage(tmp_path, host)


async def test_those_who_ask_while_one_runs_share_the_next(stage: Stage) -> None:
    answers: list[Reloaded] = []

    async def ask() -> None:
        answers.append(await stage.reloader.reload())

    stage.write({"slow": entry("--slow-start", 0.3)})
    async with stage.running(), anyio.create_task_group() as tg:
        tg.start_soon(ask)
        await until(lambda: "slow" in stage.fleet.members)
        for _ in range(5):
            tg.start_soon(ask)

    assert stage.reads == 3
    assert [answer.plan["slow"] for answer in answers] == ["add", *["unchanged"] * 5]


async def test_one_who_leaves_does_not_leave_the_reload_half_done(stage: Stage) -> None:
    stage.write({"slow": entry("--slow-start", 0.3)})
    async with stage.running():
        with anyio.CancelScope() as impatient:
            async with anyio.create_task_group() as tg:
                tg.start_soon(stage.reloader.reload)
                await until(lambda: "slow" in stage.fleet.members)
                impatient.cancel()

        await until(lambda: stage.events)

    assert stage.events[0].ok


async def test_a_reload_that_the_end_overtakes_is_given_up_and_leaves_nothing(stage: Stage) -> None:
    refused: list[str] = []

    async def ask() -> None:
        with pytest.raises(SupervisorError, match="the daemon is stopping") as caught:
            await stage.reloader.reload()
        refused.append(str(caught.value))

    async with anyio.create_task_group() as tg:
        async with stage.running():
            stage.write({"s": entry()})
            await stage.reloader.reload()
            stage.write({"s": entry("--slow-start", 30)})
            tg.start_soon(ask)
            await until(lambda: stage.reads == 3)
            tg.start_soon(ask)
        tg.start_soon(ask)

    assert len(refused) == 3


async def test_a_file_that_is_suddenly_gone_changes_nothing_until_it_is_back(stage: Stage) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        stage.path.unlink()

        with pytest.raises(BadConfig, match=r"mcp\.json: is gone; put it back"):
            await stage.reloader.reload()

        assert isinstance(stage.fleet.members["s"].actor.state.phase, Ready)
        assert "is gone" in stage.reloader.failure[0]
        stage.write({})
        assert (await stage.reloader.reload()).plan == {"s": "remove"}
        assert stage.reloader.failure == ()


async def test_a_dry_run_of_a_bad_file_is_refused_and_leaves_no_trace(stage: Stage) -> None:
    stage.path.write_text("{")

    with pytest.raises(BadConfig, match=r"mcp\.json:1:2"):
        await stage.reloader.reload(dry_run=True)

    assert (stage.reloader.failure, stage.events) == ((), [])


async def test_settings_that_need_a_new_daemon_are_named_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.write({}, socket="/elsewhere", http={"port": 1}, policy="open")
    async with stage.running():
        await stage.reloader.reload()
        await stage.reloader.reload()

    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["restart the daemon to apply the changed settings: socket, http"]


async def test_the_size_of_results_applies_to_servers_old_and_new(stage: Stage) -> None:
    stage.write({"old": entry()})
    async with stage.running():
        await stage.reloader.reload()
        stage.write({"old": entry(), "new": entry()}, maxResultBytes=2048)

        await stage.reloader.reload()

    assert {member.desk.max_result_bytes for member in stage.fleet.members.values()} == {2048}


async def test_a_bug_costs_one_reload_and_not_the_daemon(
    tmp_path: Path, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, host)
    broken = Reloader(stage.fleet, stage.reloader.loaded, lambda: json.loads("?"), Bus())
    async with anyio.create_task_group() as tg:
        tg.start_soon(broken.run)
        for _ in range(2):
            with (
                anyio.fail_after(PATIENCE),
                pytest.raises(SupervisorError, match="an internal error, see the log"),
            ):
                await broken.reload()
        tg.cancel_scope.cancel()

    assert [record.getMessage() for record in caplog.records] == ["cannot finish the reload"] * 2
