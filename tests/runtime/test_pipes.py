"""What a child writes arrives whole and in order; what nobody asked for comes at a pace."""

import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from supervisor.runtime.pipes import Ears, Heard, connected
from supervisor.runtime.process import Pipes
from tests.runtime.support import LOOPS, PATIENCE

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]

MUCH = bytes(range(256)) * 2000


@asynccontextmanager
async def child_that_says(
    what: bytes, heard: Heard, may_rest: Callable[[], bool] = lambda: True
) -> AsyncGenerator[anyio.Event]:
    """Pipes whose other ends are ours; a thread writes to standard output and closes it."""
    theirs, ours = zip(*(os.pipe() for _ in range(3)), strict=True)
    ended = anyio.Event()
    talk = threading.Thread(target=_say, args=(ours[1], what))
    ears = Ears(heard, lambda *_: None, ended.set, lambda: None, may_rest=may_rest)
    async with connected(Pipes(stdin=ours[0], stdout=theirs[1], stderr=theirs[2]), ears):
        talk.start()
        with anyio.fail_after(PATIENCE):
            yield ended
    talk.join(PATIENCE)
    os.close(theirs[0])
    os.close(ours[2])


def _say(descriptor: int, what: bytes) -> None:
    view = memoryview(what)
    while view:
        view = view[os.write(descriptor, view) :]
    os.close(descriptor)


@pytest.mark.parametrize("idle", [True, False])
async def test_everything_arrives_in_order(*, idle: bool) -> None:
    chunks: list[bytes] = []

    def heard(chunk: bytes) -> bool:
        chunks.append(chunk)
        return idle

    async with child_that_says(MUCH, heard) as ended:
        await ended.wait()

    assert b"".join(chunks) == MUCH


async def turns_meanwhile(*, may_rest: bool) -> list[int]:
    """Which turn others had come to at each piece of what nobody asked for."""
    turns: list[int] = []
    number = 0

    def heard(_chunk: bytes) -> bool:
        turns.append(number)
        _work(0.004)
        return True

    async def other() -> None:
        nonlocal number
        while True:
            await anyio.lowlevel.checkpoint()
            number += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(other)
        async with child_that_says(MUCH[: 40 * 512], heard, lambda: may_rest) as ended:
            await ended.wait()
        tg.cancel_scope.cancel()
    return turns


async def test_others_have_a_turn_after_each_piece_that_nobody_asked_for() -> None:
    turns = await turns_meanwhile(may_rest=True)

    assert len(set(turns)) == len(turns)


async def test_what_an_exited_child_has_said_is_heard_without_a_rest() -> None:
    turns = await turns_meanwhile(may_rest=False)

    assert max(map(turns.count, turns)) > 1


async def test_the_last_words_of_a_child_that_said_much_leave_turns_to_others() -> None:
    turns = await turns_meanwhile(may_rest=False)

    assert len(set(turns)) > 1


def _work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_what_another_thread_opens_is_never_closed_with_them() -> None:
    over, lost = threading.Event(), list[OSError]()

    def open_and_close() -> None:
        while not over.is_set():
            opened = os.pipe()
            for descriptor in opened:
                try:
                    os.close(descriptor)
                except OSError as exc:
                    lost.append(exc)

    other = threading.Thread(target=open_and_close)
    other.start()
    for _ in range(100):
        async with child_that_says(b"", lambda _chunk: False):
            pass
    over.set()
    other.join(PATIENCE)

    assert lost == []
