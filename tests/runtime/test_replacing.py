"""Replacing a server whose launch changed: what stays, and what is not started."""

import os
import signal
from pathlib import Path

import pytest

from supervisor.core.phases import Idle, Ready, Stopped, Unavailable
from supervisor.runtime.stdio import Host
from tests.runtime.fleet_support import Asked
from tests.runtime.reload_support import Stage, entry
from tests.runtime.support import until

pytestmark = pytest.mark.usefixtures("nothing_left")

LAZY = {"start": "lazy", "idleTimeout": 0.05}


@pytest.fixture
def stage(tmp_path: Path, host: Host) -> Stage:
    return Stage(tmp_path, host)


def listed(stage: Stage) -> bool:
    return "s_echo" in stage.fleet.catalog.by_name


async def test_a_server_that_sleeps_keeps_its_launch_when_the_new_one_fails(stage: Stage) -> None:
    stage.write({"s": entry(**LAZY)})
    async with stage.running():
        await stage.reloader.reload()
        await stage.fleet.members["s"].actor.reach(Idle)
        stage.write({"s": entry("--exit-at", "spawn", **LAZY)})

        done = await stage.reloader.reload()

        assert done.results["s"].endswith("; the old launch stays")
        assert listed(stage)
        assert await Asked(stage.fleet, "s_echo", arguments={"text": "hello"}).text()


async def test_a_server_that_sleeps_is_listed_while_it_is_replaced(stage: Stage) -> None:
    stage.write({"s": entry(**LAZY)})
    async with stage.running():
        await stage.reloader.reload()
        before = stage.fleet.members["s"]
        await before.actor.reach(Idle)
        gate = stage.path.with_name("gate")
        stage.write({"s": entry("--hold-start", gate, **LAZY)})

        await stage.reloader.begin()
        assert stage.fleet.members["s"] is before
        assert listed(stage)
        call = Asked(stage.fleet, "s_echo", arguments={"text": "hello"})
        gate.touch()
        await until(lambda: stage.fleet.members["s"] is not before)

        assert listed(stage)
        assert await call.text()


@pytest.mark.parametrize("keys", [{}, {"start": "lazy"}, {"exclusive": True}], ids=str)
async def test_a_server_that_an_operator_stopped_is_replaced_and_not_started(
    stage: Stage, keys: dict[str, object]
) -> None:
    stage.write({"s": entry(**keys)})
    async with stage.running():
        await stage.reloader.reload()
        await stage.fleet.stop_server("s")
        stage.write({"s": entry("--tools", 2, **keys)})

        done = await stage.reloader.reload()

        assert done.results == {"s": "ok"}
        member = stage.fleet.members["s"]
        assert isinstance(member.actor.state.phase, Stopped)
        assert (member.pid, member.actor.state.run) == (None, 0)
        stage.write({"s": entry("--tools", 3, **keys)})
        await stage.reloader.reload()
        assert isinstance(stage.fleet.members["s"].actor.state.phase, Stopped)
        await stage.fleet.start_server("s")
        await until(lambda: "s_echo_3" in stage.fleet.catalog.by_name)


async def test_a_server_that_was_stopped_and_started_again_is_replaced_as_any_other(stage: Stage) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        await stage.fleet.stop_server("s")
        await stage.fleet.start_server("s")
        stage.write({"s": entry("--tools", 2)})

        await stage.reloader.reload()

        assert isinstance(stage.fleet.members["s"].actor.state.phase, Ready)


async def test_an_old_run_that_has_died_meanwhile_is_not_said_to_stay(stage: Stage) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        before = stage.fleet.members["s"]
        gate = stage.path.with_name("gate")
        stage.write({"s": entry("--hold-start", gate, "--exit-at", "initialize", protocol="2025-11-25")})
        await stage.reloader.begin()
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)
        await before.actor.reach(Unavailable)
        gate.touch()

        done = await stage.reloader.reload()

        assert "stays" not in done.results["s"]
        assert stage.fleet.members["s"] is not before
        assert isinstance(stage.fleet.members["s"].actor.state.phase, Unavailable)
        assert stage.reloader.behind == {}
