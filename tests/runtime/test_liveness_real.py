"""Servers that hang, freeze or work hard, watched as the daemon watches them."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.phases import Backoff, Ready, Unavailable
from supervisor.core.servers import ServerSpec
from supervisor.errors import Outcome, ServerDied
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.pulse import pulse
from supervisor.runtime.usage import usage
from tests.runtime.fleet_support import Asked, Build, entry, fleet_call, reach
from tests.runtime.http_support import serving
from tests.runtime.support import bystander, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

WATCHED = {"healthInterval": 0.2}
AT_LEISURE = {"healthInterval": 1.0}
"""For one that must answer in time, on a busy machine too."""
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


def child(fleet: Fleet) -> int:
    pid = fleet.members["fake"].pid
    assert pid is not None
    return pid


@ERAS
async def test_a_frozen_server_is_found_out_and_its_call_ends(era: str, build: Build) -> None:
    async with build.up({"fake": entry("--era", era, **WATCHED)}) as fleet:
        asked = Asked(fleet, "fake_sleep", arguments={"seconds": 60})
        os.kill(child(fleet), signal.SIGSTOP)

        end = await asked.end()
        await reach(fleet, "fake", Unavailable)

        assert isinstance(end, ServerDied)
        assert end.data["outcome"] == Outcome.UNKNOWN
        assert "unhealthy: was stopped by a signal and did not go on" in fleet.members["fake"].reason


async def test_a_server_that_was_found_dead_is_restarted_by_its_policy(build: Build) -> None:
    restart = {"policy": "on-failure", "delay": 0.05}
    async with build.up({"fake": entry(restart=restart, **WATCHED)}) as fleet:
        first = child(fleet)
        os.kill(first, signal.SIGSTOP)

        await reach(fleet, "fake", Backoff)
        await reach(fleet, "fake", Ready)

        assert child(fleet) != first


@ERAS
async def test_a_server_that_no_longer_reads_is_found_out_by_a_probe(era: str, build: Build) -> None:
    async with build.up({"fake": entry("--era", era, **WATCHED)}) as fleet:
        await fleet_call(fleet, "deaf")

        await reach(fleet, "fake", Unavailable)

        assert "unhealthy: did not answer a probe for" in fleet.members["fake"].reason


async def test_a_healthy_server_is_left_alone(build: Build, tmp_path: Path) -> None:
    log = tmp_path / "fake.log"
    async with build.up({"fake": entry("--era", "legacy", "--log", log, **AT_LEISURE)}) as fleet:
        await until(lambda: log.read_text().count('"method":"ping"') >= 3)

        assert fleet.members["fake"].ready
        assert not fleet.members["fake"].ends


async def test_a_server_that_works_hard_on_a_call_is_left_alone(build: Build, tmp_path: Path) -> None:
    done = tmp_path / "done"
    async with build.up({"fake": entry(**WATCHED)}) as fleet:
        pid = child(fleet)
        asked = Asked(fleet, "fake_burn", arguments={"file": str(done)})

        await until(lambda: (used := usage(pid)) is None or used.cpu > 5 * WATCHED["healthInterval"])
        done.touch()

        assert await asked.text() == "done"
        assert child(fleet) == pid


async def test_a_server_is_watched_from_when_its_entry_says_so(build: Build) -> None:
    async with build.up({"fake": entry()}) as fleet:
        os.kill(child(fleet), signal.SIGSTOP)

        member = fleet.members["fake"]
        assert isinstance(member.spec, ServerSpec)
        watched = member.spec.entry.but(health_interval=0.2)
        member.retune(replace(member.spec, entry=watched))

        await reach(fleet, "fake", Unavailable)


async def test_an_http_server_that_stops_answering_is_found_out_by_a_probe(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", "modern") as served:
        remote = {"url": served.url, "restart": "never", **WATCHED}
        async with build.up({"remote": remote}) as fleet:
            os.kill(served.process.pid, signal.SIGSTOP)

            await reach(fleet, "remote", Unavailable)

            assert "unhealthy: did not answer a probe for" in fleet.members["remote"].reason


async def test_an_http_server_that_answers_is_left_alone(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with build.up({"remote": {"url": served.url, **AT_LEISURE}}) as fleet:
            await until(lambda: len(served.heard("ping")) >= 3)

            assert fleet.members["remote"].ready


def test_the_pulse_of_a_process_tells_whether_it_moves_and_whether_it_can() -> None:
    with bystander(["/bin/cat"]) as process:
        process.wait(10)
        assert pulse(process.pid) is None
    with bystander(["/bin/sleep", "60"]) as process:
        first = pulse(process.pid)
        assert first is not None
        assert not first.frozen
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        second = pulse(process.pid)
        assert second is not None
        assert second.frozen
