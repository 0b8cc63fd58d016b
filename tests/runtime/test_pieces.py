"""Long work lets others have a turn."""

from collections.abc import Generator

import anyio
import pytest

from supervisor.runtime import pieces
from supervisor.runtime.pieces import in_pieces


def work() -> Generator[None, None, str]:
    """Offer a pause now and then."""
    for _ in range(10):
        yield
    return "done"


async def test_others_have_a_turn_while_long_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_PIECE", -1.0)  # each piece is a long one
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(other)
        assert await in_pieces(work()) == "done"
        during = turns
        tg.cancel_scope.cancel()

    assert during > 1


async def test_short_work_is_done_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_PIECE", 3600.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        turns += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(other)
        assert await in_pieces(work()) == "done"
        assert turns == 0
