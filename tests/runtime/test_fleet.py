"""A fleet of real servers: they come up and go together, and their tools are true to what is."""

import os
import signal
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from supervisor.core.phases import Backoff, Idle, Ready, Starting, Stopped, Stopping, Unavailable
from supervisor.errors import (
    Outcome,
    RefusedByPolicy,
    ServerDied,
    ServerUnavailable,
    UnknownServer,
    UnknownTool,
)
from supervisor.runtime import proctable
from supervisor.runtime.member import Member
from tests.runtime.fleet_support import SECRET, Asked, Build, entry, fleet_call, only_child, reach
from tests.runtime.support import LOOPS, PATIENCE, number_in, until

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]


# Coming up.


async def test_one_bad_server_does_not_hurt_another(build: Build) -> None:
    servers = {
        "good": entry("--tools", "1"),
        "cat": {"command": "/bin/cat"},
        "missing": {"command": "/does/not/exist"},
        "crashing": entry("--exit-at", "spawn", "--exit-code", "3", "--stderr", "no such database"),
        "wrong": {"command": 7},
        "unset": {"command": "sh", "args": ["${NOT_SET}"]},
        "off": entry(enabled=False),
    }
    fleet = build(servers)
    async with fleet.running():
        fleet.start()
        for name in servers.keys() - {"off"}:
            await reach(fleet, name, Ready, Unavailable, Backoff)

        views = {view.name: view for view in fleet.view().servers}
        assert {name: view.state for name, view in views.items()} == {
            **dict.fromkeys(servers, "unavailable"),
            "good": "connected",
            "off": "disabled",
        }
        assert "not an MCP server" in views["cat"].reason
        assert "cannot find /does/not/exist" in views["missing"].reason
        assert views["crashing"].reason == "exited with code 3"
        assert "bad config" in views["wrong"].reason
        assert "NOT_SET" in views["unset"].reason
        assert [listed.public_name for listed in fleet.catalog.listed] == ["good_echo"]
        assert await Asked(fleet, "good_echo", arguments={"n": 1}).text() == '{"n":1}'


async def test_servers_that_still_start_are_named_as_pending(build: Build) -> None:
    fleet = build({"slow": entry("--slow-start", "60"), "fast": entry()})
    async with fleet.running():
        fleet.start()
        await reach(fleet, "fast", Ready)

        assert fleet.view().pending == fleet.starting() == ("slow",)
        assert isinstance(fleet.members["slow"].actor.state.phase, Starting)


async def test_a_server_that_never_answers_is_given_up_and_its_process_is_gone(build: Build) -> None:
    async with build.up({"mute": {"command": "sleep", "args": ["60"], "startTimeout": 0.2}}) as fleet:
        view = fleet.member("mute").view(tools=0)

        assert view.reason == "did not answer within 0.2 s"
        assert proctable.descendants(os.getpid()) == []


async def test_what_is_known_of_a_server_can_be_seen(build: Build) -> None:
    options = ("--bad-tool", "--garbage", "--stderr", "the key is ${KEY}")
    async with build.up({"fake": entry(*options, env={"KEY": "${KEY}"}, cwd="/")}) as fleet:
        detail = fleet.detail("fake")

        assert (detail.state, detail.phase, detail.protocol) == ("connected", "ready", "2026-07-28")
        assert detail.command == sys.executable
        assert detail.cwd == "/"
        assert "KEY" in detail.environment
        assert detail.noise > 0
        assert [what for what, _ in detail.timeline] == ["spawned", "heard", "greeted", "listed"]
        assert {hidden["cause"] for hidden in detail.left_out} == {"definition", "policy"}
        assert "the key is ***" in detail.stderr
        assert SECRET not in msgspec.json.encode(detail).decode()


async def test_what_one_run_wrote_is_not_counted_again_for_the_next(build: Build) -> None:
    async with build.up({"fake": entry("--garbage")}) as fleet:
        await Asked(fleet, "fake_noise", arguments={"lines": 3}).text()
        await fleet.stop_server("fake")
        before = fleet.detail("fake").noise

        await fleet.start_server("fake")

        fleet.gauge(fleet.member("fake"))
        assert before > fleet.detail("fake").noise
        assert fleet.counters.server("fake").noise.total == before + fleet.detail("fake").noise


async def test_a_server_that_nobody_configured_is_unknown(build: Build) -> None:
    async with build.up({"b": entry(), "a": entry()}) as fleet:
        with pytest.raises(UnknownServer, match="cannot find server 'c'; the configured ones are: a, b"):
            fleet.detail("c")


# Names.


async def test_a_tool_that_nobody_ever_had_is_unknown(build: Build) -> None:
    async with build.up() as fleet:
        with pytest.raises(UnknownTool, match="cannot find tool 'fake_nothing'"):
            Asked(fleet, "fake_nothing")


async def test_a_tool_that_writes_is_refused_by_default(build: Build) -> None:
    async with build.up() as fleet:
        with pytest.raises(RefusedByPolicy, match="cannot call fake_crash"):
            Asked(fleet, "fake_crash")


async def test_a_tool_that_needs_approval_is_called_only_with_it(build: Build) -> None:
    async with build.up(policy="confirm") as fleet:
        with pytest.raises(RefusedByPolicy, match="without approval"):
            Asked(fleet, "fake_noise")

        assert await Asked(fleet, "fake_noise", approved=True).text() == "that was noise"


async def test_a_tool_that_left_with_its_server_is_not_unknown(build: Build) -> None:
    async with build.up() as fleet:
        pid = fleet.member("fake").view(tools=0).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await reach(fleet, "fake", Unavailable)

        with pytest.raises(ServerUnavailable, match="killed by signal 9") as caught:
            Asked(fleet, "fake_echo")

        assert caught.value.data["outcome"] == Outcome.NOT_SENT
        assert fleet.catalog.listed == ()


async def test_a_tool_that_left_with_its_server_is_not_unknown_though_nobody_had_looked(
    build: Build,
) -> None:
    fleet = build()
    async with fleet.running():
        fleet.start()
        await reach(fleet, "fake", Ready)
        os.kill(only_child(), signal.SIGKILL)
        await reach(fleet, "fake", Unavailable)

        with pytest.raises(ServerUnavailable):
            fleet.route("fake_echo")


async def test_a_changed_list_of_tools_changes_the_catalog(build: Build) -> None:
    async with build.up({"fake": entry("--tools", "1")}) as fleet:
        before = fleet.generations.number
        await fleet_call(fleet, "change_tools")

        await until(lambda: fleet.catalog.route("fake_extra_1") is not None)
        assert fleet.generations.number == before + 1


# Restarts.


async def test_a_call_waits_for_a_server_that_comes_back(build: Build) -> None:
    restart = {"policy": "on-failure", "delay": 30, "maxDelay": 30}
    async with build.up({"fake": entry(restart=restart)}) as fleet:
        os.kill(only_child(), signal.SIGKILL)
        await reach(fleet, "fake", Backoff)
        view = fleet.view().servers[0]
        assert view.next_try is not None

        assert await Asked(fleet, "fake_echo", arguments={"n": 2}).text() == '{"n":2}'
        assert fleet.view().servers[0].restarts == 1


async def test_a_lazy_server_is_woken_by_a_call(build: Build) -> None:
    async with build.up({"fake": entry(start="lazy", idleTimeout=0.1)}) as fleet:
        await reach(fleet, "fake", Idle)
        assert proctable.descendants(os.getpid()) == []

        assert await Asked(fleet, "fake_echo").text() == "{}"


async def test_a_call_may_come_before_its_server_has_listed_anything(build: Build) -> None:
    fleet = build()
    async with fleet.running():
        fleet.start()
        await reach(fleet, "fake", Starting)

        assert await Asked(fleet, "fake_echo").text() == "{}"


# Stopping.


def is_stopping(member: Member) -> bool:
    return isinstance(member.actor.state.phase, Stopping)


async def test_servers_stop_in_parallel_and_leave_nothing(build: Build, tmp_path: Path) -> None:
    stubborn = (
        "--ignore-sigterm",
        "--ignore-eof",
        "--grandchild",
        "double-fork",
        "--grandchild-ignores-term",
    )
    servers = {
        f"s{number}": entry(*stubborn, "--grandchild-pidfile", tmp_path / f"{number}") for number in range(8)
    }
    async with build.up(servers) as fleet:
        assert len(proctable.descendants(os.getpid())) == 16

        async with anyio.create_task_group() as tg:
            tg.start_soon(fleet.stop)
            await until(lambda: all(is_stopping(member) for member in fleet.members.values()))

        assert proctable.descendants(os.getpid()) == []
    assert all(proctable.entry(number_in(tmp_path / f"{number}")) is None for number in range(8))


async def test_a_kill_does_not_wait_for_grace(build: Build) -> None:
    async with build.up({"fake": entry("--ignore-sigterm", "--ignore-eof", stopGrace=60)}) as fleet:
        fleet.kill()

        await reach(fleet, "fake", Stopped)
        assert proctable.descendants(os.getpid()) == []


async def test_a_stop_right_after_a_start_is_not_said_to_be_done_before_it_is(build: Build) -> None:
    fleet = build()
    async with fleet.running():
        fleet.start()

        with anyio.fail_after(PATIENCE):
            await fleet.stop()

        await anyio.wait_all_tasks_blocked()
        assert proctable.descendants(os.getpid()) == []
        assert isinstance(fleet.members["fake"].actor.state.phase, Stopped)


async def test_calls_in_flight_when_the_fleet_stops_end(build: Build) -> None:
    async with build.up() as fleet:
        asked = Asked(fleet, "fake_sleep", arguments={"seconds": 60})

    error = await asked.end()
    assert isinstance(error, ServerDied | ServerUnavailable)


async def test_a_fleet_whose_task_is_cancelled_leaves_nothing(build: Build) -> None:
    with anyio.move_on_after(PATIENCE) as scope:
        async with build.up({"fake": entry("--ignore-sigterm", "--ignore-eof")}):
            scope.cancel()
            await anyio.sleep_forever()

    assert proctable.descendants(os.getpid()) == []


# Commands.


async def test_a_command_answers_when_it_is_so(build: Build) -> None:
    async with build.up() as fleet:
        first = only_child()
        with anyio.fail_after(PATIENCE):
            await fleet.restart_server("fake")
            second = only_child()
            await fleet.stop_server("fake")
            assert proctable.descendants(os.getpid()) == []
            await fleet.start_server("fake")

        assert len({first, second, only_child()}) == 3
        assert fleet.summary("fake").run == 3


async def test_a_command_need_not_be_waited_for(build: Build) -> None:
    async with build.up({"fake": entry("--slow-start", "60", startTimeout=0.1)}) as fleet:
        with anyio.fail_after(PATIENCE):
            await fleet.start_server("fake", wait=False)
            assert fleet.summary("fake").phase == "starting"
            await fleet.restart_server("fake", wait=False)
            await fleet.stop_server("fake", wait=False)


async def test_a_server_that_does_not_come_up_says_so_to_whoever_started_it(build: Build) -> None:
    async with build.up({"fake": entry("--exit-at", "spawn", "--exit-code", "3")}) as fleet:
        with anyio.fail_after(PATIENCE), pytest.raises(ServerUnavailable, match="exited with code 3"):
            await fleet.start_server("fake")


async def test_a_disabled_server_cannot_be_started(build: Build) -> None:
    fleet = build({"fake": entry(enabled=False)})
    async with fleet.running():
        with pytest.raises(ServerUnavailable, match="it is disabled"):
            await fleet.start_server("fake")


async def test_a_retired_server_finishes_its_calls_first(build: Build) -> None:
    async with build.up() as fleet:
        asked = Asked(fleet, "fake_sleep", arguments={"seconds": 0.2})

        fleet.retire(fleet.members.pop("fake"))

        assert await asked.text() == "slept 0.2 s"
        await until(lambda: not proctable.descendants(os.getpid()))
