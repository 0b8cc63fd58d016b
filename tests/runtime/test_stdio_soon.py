"""How soon a run notices that its server is lost: before a timer that its loop has when that can be known.

A busy machine holds up both. Most of several have to be soon, as it may hold up one of them more.
"""

import os
import signal
from collections.abc import Awaitable, Callable

import anyio
import pytest

from supervisor.runtime import conversation
from supervisor.runtime.stdio import Host
from tests.runtime.support import LOOPS, Stage, fake, small_server, staged

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]

TRIES = 5


async def died(stage: Stage) -> None:
    """Wait until the kernel says that the leader is dead."""
    watched = os.pidfd_open(stage.pid)
    try:
        os.kill(stage.pid, signal.SIGKILL)
        await anyio.wait_readable(watched)
    finally:
        os.close(watched)


async def is_soon(seconds: float, fact: Callable[[], Awaitable[object]]) -> bool:
    """Whether something becomes so within these seconds of the loop's own clock."""
    with anyio.move_on_after(seconds):
        await fact()
        return True
    return False


async def test_a_call_ends_within_a_tenth_of_a_second_of_its_servers_death(host: Host) -> None:
    soon: list[bool] = []
    for _ in range(TRIES):
        async with staged(host, fake()) as stage:
            await stage.opened()
            asked = stage.ask("sleep", seconds=60)

            await died(stage)

            soon.append(await is_soon(0.1, asked.done.wait))

    assert sum(soon) > TRIES // 2, soon


async def test_a_death_is_noticed_within_a_tenth_of_a_second_though_a_grandchild_holds_stdout(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_SILENCE", 3600.0)
    soon: list[bool] = []
    for _ in range(TRIES):
        async with staged(host, fake("--grandchild", "group")) as stage:
            await stage.opened()

            await died(stage)

            soon.append(await is_soon(0.1, stage.lost))

    assert sum(soon) > TRIES // 2, soon


async def test_a_closed_stdout_is_noticed_within_a_second(host: Host) -> None:
    soon: list[bool] = []
    for _ in range(TRIES):
        argv = small_server(on_call="import os, time; os.close(1); time.sleep(60)")
        async with staged(host, argv) as stage:
            await stage.opened()

            await stage.call("close it")

            soon.append(await is_soon(1.0, stage.lost))

    assert sum(soon) > TRIES // 2, soon
