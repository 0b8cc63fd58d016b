"""Long work lets others have a turn."""

import time
from collections.abc import Generator

import anyio

from supervisor.runtime.pieces import in_pieces


def busy(seconds: float) -> Generator[None, None, str]:
    """Work for so long by our own clock, and offer a pause after each thousandth of a second."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        yield
    return "done"


def nothing() -> Generator[None, None, str]:
    yield
    return "done"


async def test_others_have_a_turn_while_long_work_is_done() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(other)
        assert await in_pieces(busy(0.05)) == "done"
        during = turns
        tg.cancel_scope.cancel()

    assert during > 1


async def test_short_work_is_done_in_one_go() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        turns += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(other)
        assert await in_pieces(nothing()) == "done"
        assert turns == 0
