"""Calls to a fleet of real servers end once, and say truly how."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from supervisor.core.phases import Ready, Starting
from supervisor.errors import (
    Cancelled,
    Outcome,
    ServerDied,
    ServerUnavailable,
    SupervisorError,
    TimedOut,
    UnknownTool,
)
from supervisor.runtime.calls import CallRequest, tell
from tests.runtime.fleet_support import Asked, Build, Reply, calls_received, entry, reach
from tests.runtime.support import LOOPS, PATIENCE

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]


# Calls and their ends.


async def test_a_call_is_answered(build: Build) -> None:
    async with build.up() as fleet:
        asked = Asked(fleet, "fake_echo", arguments={"exact": 10**30})

        assert await asked.text() == '{"exact":1000000000000000000000000000000}'
        assert fleet.member("fake").view(tools=0).pending == 0


async def test_calls_of_many_clients_end_each_with_its_own_answer(build: Build) -> None:
    async with build.up({"a": entry(), "b": entry("--era", "legacy")}) as fleet:
        asked = [
            (number, Asked(fleet, f"{server}_echo", client=str(number % 7), arguments={"n": number}))
            for number in range(200)
            for server in ("a", "b")
        ]

        for number, each in asked:
            assert await each.text() == f'{{"n":{number}}}'


async def test_a_call_during_which_the_server_dies_is_unknown(build: Build) -> None:
    async with build.up({"fake": entry("--stderr", "last words")}, policy="open") as fleet:
        waiting = Asked(fleet, "fake_sleep", arguments={"seconds": 60})

        error = await Asked(fleet, "fake_crash", arguments={"code": 3}).end()

        assert isinstance(error, ServerDied)
        assert error.data["outcome"] == Outcome.UNKNOWN
        assert error.data["exit"]["code"] == 3
        assert error.data["stderr"] == ["last words"]
        assert isinstance(await waiting.end(), ServerDied)


@pytest.mark.parametrize("other", ["--slow-start=60", "--exit-at=spawn"])
async def test_a_call_that_comes_first_goes_to_the_server_that_turns_out_to_have_the_tool(
    build: Build, other: str, tmp_path: Path
) -> None:
    option, value = other.split("=")
    servers = {"a": entry(option, value), "a_b": entry("--log", tmp_path / "log", "--slow-start", "0.2")}
    fleet = build(servers)
    async with fleet.running():
        fleet.start()
        await reach(fleet, "a_b", Starting)

        assert await Asked(fleet, "a_b_echo", arguments={"mine": 1}).text() == '{"mine":1}'
        assert calls_received(tmp_path / "log") == ["echo"]


async def test_a_call_of_a_tool_that_nobody_turns_out_to_have_is_unknown(build: Build) -> None:
    fleet = build({"a": entry(), "a_b": entry("--slow-start", "0.2")})
    async with fleet.running():
        fleet.start()
        await reach(fleet, "a_b", Starting)

        assert isinstance(await Asked(fleet, "a_b_nothing").end(), UnknownTool)


async def test_who_asks_for_plain_text_is_told_in_plain_text_that_a_server_is_gone(build: Build) -> None:
    async with build.up() as fleet:
        await fleet.stop_server("fake")
        reply = Reply()
        request = CallRequest("fake_echo", flatten=True)
        with pytest.raises(ServerUnavailable) as caught:
            fleet.call(request, reply, "client")
        tell(request, reply, caught.value)

    (end,) = reply.ends
    assert end["error"] is True
    assert end["output"].startswith("MCP server unreachable: cannot call server fake")


async def test_a_call_to_a_server_that_has_just_died_ends_once(build: Build) -> None:
    async with build.up() as fleet:
        pid = fleet.member("fake").view(tools=0).pid
        assert pid is not None
        asked: list[Asked] = []

        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while isinstance(fleet.members["fake"].actor.state.phase, Ready):
                with suppress(ServerUnavailable):
                    asked.append(Asked(fleet, "fake_sleep", arguments={"seconds": 60}))
                await anyio.sleep(0.001)

        ends = [await each.end() for each in asked]
        assert all(isinstance(end, ServerDied | ServerUnavailable) for end in ends)
        assert [len(each.reply.ends) for each in asked] == [1] * len(asked)
        assert fleet.member("fake").view(tools=0).pending == 0
        assert not fleet._deadlines._calls  # none is left to end once more


async def test_a_call_that_takes_too_long_is_cancelled_at_a_server_that_lives_on(
    build: Build, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with build.up({"fake": entry("--log", log)}) as fleet:
        error = await Asked(fleet, "fake_sleep", timeout=0.1, arguments={"seconds": 60}).end()

        assert isinstance(error, TimedOut)
        assert error.data["outcome"] == Outcome.TIMED_OUT
        assert await Asked(fleet, "fake_echo").text() == "{}"
        assert "notifications/cancelled" in log.read_text()


async def test_a_cancelled_call_ends_at_once(build: Build) -> None:
    async with build.up() as fleet:
        asked = Asked(fleet, "fake_sleep", arguments={"seconds": 60})

        asked.call.cancel("the client cancelled it")

        assert isinstance(await asked.end(), Cancelled)


async def test_a_report_on_progress_that_is_too_long_reaches_nobody(build: Build) -> None:
    async with build.up() as fleet:
        long = {"steps": 2, "padding": 70_000}
        asked = Asked(fleet, "fake_progress", arguments=long, _meta={"progressToken": "mine"})

        assert await asked.text() == "2 steps"
        assert asked.reply.progress == []


async def test_progress_extends_a_call_and_reaches_the_client(build: Build) -> None:
    async with build.up() as fleet:
        asked = Asked(
            fleet,
            "fake_progress",
            arguments={"steps": 8, "interval": 0.01},
            _meta={"progressToken": "mine"},
        )
        deadline = asked.call.deadline

        assert await asked.text() == "8 steps"
        assert [params["progressToken"] for _, params in asked.reply.progress] == ["mine"] * 8
        assert asked.call.deadline > deadline


async def test_a_client_that_leaves_does_not_have_its_queue_sent(build: Build, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with build.up({"fake": entry("--log", log, maxConcurrency=1)}) as fleet:
        asked = [Asked(fleet, "fake_sleep", arguments={"seconds": 60}) for _ in range(4)]

        for each in reversed(asked):
            each.call.cancel("the client disconnected")

        assert await Asked(fleet, "fake_echo").text() == "{}"
        assert calls_received(log) == ["sleep", "echo"]


async def test_calls_beyond_the_queue_are_refused(build: Build) -> None:
    async with build.up({"fake": entry(maxConcurrency=1, maxQueue=1)}) as fleet:
        waiting = [Asked(fleet, "fake_sleep", arguments={"seconds": 60}) for _ in range(2)]

        with pytest.raises(SupervisorError, match="cannot queue more than 1 calls"):
            Asked(fleet, "fake_echo")

        for each in reversed(waiting):
            each.call.cancel("enough")
