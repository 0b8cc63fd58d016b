"""The reloader's task: who asks, who is answered, and what is refused."""

import json
import logging
import threading
from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from supervisor.core.phases import Ready
from supervisor.core.plan import Spec
from supervisor.core.servers import Loaded
from supervisor.errors import BadConfig, SupervisorError
from supervisor.runtime.bus import Bus
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.member import Member
from supervisor.runtime.reload import Reloaded, Reloader
from supervisor.runtime.stdio import Host
from tests.runtime.reload_support import Stage, entry
from tests.runtime.support import PATIENCE, until

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def stage(tmp_path: Path, host: Host) -> Stage:
    return Stage(tmp_path, host)


async def test_those_who_ask_again_for_what_is_under_way_share_its_answer(stage: Stage) -> None:
    answers: list[Reloaded] = []

    async def ask() -> None:
        answers.append(await stage.reloader.reload())

    gate = stage.path.with_name("gate")
    stage.write({"slow": entry("--hold-start", gate)})
    async with stage.running(), anyio.create_task_group() as tg:
        tg.start_soon(ask)
        await until(lambda: "slow" in stage.fleet.members)
        again = stage.reloader._next
        for _ in range(5):
            tg.start_soon(ask)
        await again.begun.wait()
        gate.touch()

    assert stage.reads == 3
    assert answers == [Reloaded({"slow": "add"}, {"slow": "ok"}, ())] * 6
    assert len(stage.events) == 1


async def test_one_who_leaves_does_not_leave_the_reload_half_done(stage: Stage) -> None:
    gate = stage.path.with_name("gate")
    stage.write({"slow": entry("--hold-start", gate)})
    async with stage.running():
        with anyio.CancelScope() as impatient:
            async with anyio.create_task_group() as tg:
                tg.start_soon(stage.reloader.reload)
                await until(lambda: "slow" in stage.fleet.members)
                impatient.cancel()
        gate.touch()

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


class SlowStage(Stage):
    """One whose files take long to read."""

    def __init__(self, directory: Path, host: Host) -> None:
        self.has_read, self.gate = threading.Event(), threading.Event()
        super().__init__(directory, host)

    @override
    def load(self, last: Loaded | None = None) -> Loaded:
        loaded = super().load(last)
        if last is not None:
            self.has_read.set()
            assert self.gate.wait(PATIENCE)
        return loaded


async def test_nobody_waits_for_a_long_reading_and_the_last_state_wins(tmp_path: Path, host: Host) -> None:
    stage = SlowStage(tmp_path, host)
    stage.write({"old": entry(enabled=False)})
    async with stage.running(), anyio.create_task_group() as tg:
        tg.start_soon(stage.reloader.reload)
        await until(stage.has_read.is_set)
        stage.write({"new": entry(enabled=False)})
        for _ in range(5):
            tg.start_soon(stage.reloader.reload)

        await anyio.wait_all_tasks_blocked()  # the loop is free while the files are read
        assert stage.fleet.members == {}
        stage.gate.set()

    assert (stage.reads, set(stage.fleet.members)) == (3, {"new"})


async def test_a_dry_run_says_what_would_be_done_and_does_nothing(stage: Stage) -> None:
    stage.write({"s": entry(enabled=False)})
    async with stage.running():
        await stage.reloader.reload()
        stage.write({"t": entry(enabled=False)})

        done = await stage.reloader.reload(dry_run=True)

        assert done == Reloaded({"s": "remove", "t": "add"}, {}, ())
        assert list(stage.fleet.members) == ["s"]
    assert len(stage.events) == 1


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


class ClumsyFleet(Fleet):
    """One that has a bug with one of its servers."""

    @override
    def new_member(self, spec: Spec) -> Member:
        if spec.name == "bad":
            raise RuntimeError("a bug")
        return super().new_member(spec)


class ClumsyStage(Stage):
    kind = ClumsyFleet


async def test_a_bug_at_one_server_is_not_anothers(tmp_path: Path, host: Host) -> None:
    stage = ClumsyStage(tmp_path, host)
    stage.write({"bad": entry(), "good": entry()})
    async with stage.running():
        done = await stage.reloader.reload()

    assert done.results == {"bad": "cannot finish the reload: an internal error, see the log", "good": "ok"}
    assert set(stage.fleet.members) == {"good"}


async def test_a_bug_costs_one_reload_and_not_the_daemon(
    tmp_path: Path, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, host)
    broken = Reloader(stage.fleet, stage.reloader.loaded, lambda _: json.loads("?"), Bus())
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
