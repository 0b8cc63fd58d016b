"""One message is written at once, many are gathered, and whatever does not go out now goes out in order."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from supervisor.runtime.outlet import Outlet, gathered
from tests.runtime.support import LOOPS, PATIENCE, until

pytestmark = LOOPS

MORE_THAN_A_PIPE_HOLDS = 1_000_000


@asynccontextmanager
async def an_outlet(limit: int = sys.maxsize) -> AsyncIterator[tuple[Outlet, asyncio.WriteTransport, int]]:
    """An outlet into a pipe, its transport, and the descriptor where it is read, a write at a time."""
    reads, writes = os.pipe2(os.O_DIRECT)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(writes, "wb", 0))
    os.set_blocking(reads, False)
    try:
        yield Outlet(transport, writes, limit=limit), transport, reads
    finally:
        if not transport.is_closing():
            transport.abort()
        os.close(reads)
        await anyio.lowlevel.checkpoint()


async def received(descriptor: int, size: int) -> bytes:
    """What arrives until there is that much."""
    found = b""
    with anyio.fail_after(PATIENCE):
        while len(found) < size:
            await anyio.wait_readable(descriptor)
            found += os.read(descriptor, 1 << 20)
    return found


async def test_a_single_message_is_there_before_the_loop_comes_round() -> None:
    async with an_outlet() as (outlet, _, reads):
        outlet.write(b"one\n")

        assert os.read(reads, 100) == b"one\n"


async def test_gathered_messages_arrive_in_order() -> None:
    async with an_outlet() as (outlet, _, reads):
        with gathered():
            outlet.write(b"one\n")
            with gathered():
                outlet.write(b"two\n")
            outlet.write(b"three\n")
        outlet.write(b"four\n")

        assert await received(reads, 19) == b"one\ntwo\nthree\nfour\n"


async def test_gathered_messages_are_one_write() -> None:
    async with an_outlet() as (outlet, _, reads):
        with gathered():
            outlet.write(b"one\n")
            with gathered():
                outlet.write(b"two\n")
            outlet.write(b"three\n")

        assert os.read(reads, 100) == b"one\ntwo\nthree\n"


async def test_gathered_messages_are_written_although_something_went_wrong() -> None:
    async with an_outlet() as (outlet, _, reads):
        with suppress(ZeroDivisionError), gathered():
            outlet.write(b"one\n")
            raise ZeroDivisionError

        assert os.read(reads, 100) == b"one\n"


async def test_a_reader_may_begin_before_many_messages_are_gathered() -> None:
    async with an_outlet() as (outlet, _, reads):
        with gathered():
            for number in range(20):
                outlet.write(b"%d," % number)

            assert os.read(reads, 100) == b"0,1,2,3,4,5,6,7,"
            assert os.read(reads, 100) == b"8,9,10,11,12,13,14,15,"
        assert os.read(reads, 100) == b"16,17,18,19,"


async def test_much_for_one_reader_is_not_gathered() -> None:
    async with an_outlet() as (outlet, _, reads):
        with gathered():
            outlet.write(bytes(MORE_THAN_A_PIPE_HOLDS))

            assert os.read(reads, 1)


async def test_what_is_gathered_counts_for_the_limit() -> None:
    async with an_outlet(limit=5) as (outlet, _, reads):
        with gathered():
            assert outlet.write(b"123456")
            assert not outlet.write(b"7")

        assert os.read(reads, 100) == b"123456"


async def test_what_is_gathered_for_a_reader_that_does_not_read_waits_its_turn() -> None:
    async with an_outlet() as (outlet, transport, reads):
        outlet.write(bytes(MORE_THAN_A_PIPE_HOLDS))
        with gathered():
            outlet.write(b"one")
            outlet.write(b"two")
        outlet.write(b"three")

        assert (await received(reads, MORE_THAN_A_PIPE_HOLDS + 11)).lstrip(b"\0") == b"onetwothree"
        assert not transport.is_closing()


async def test_what_is_gathered_when_the_stream_is_closed_goes_nowhere() -> None:
    async with an_outlet() as (outlet, transport, reads):
        with gathered():
            outlet.write(b"one")
            transport.abort()

        with pytest.raises(BlockingIOError):
            os.read(reads, 100)


async def test_what_a_reader_does_not_take_at_once_follows_in_order() -> None:
    async with an_outlet() as (outlet, _, reads):
        large = os.urandom(MORE_THAN_A_PIPE_HOLDS)
        outlet.write(large)
        outlet.write(b"after")

        assert await received(reads, len(large) + 5) == large + b"after"


async def test_a_reader_that_leaves_more_than_the_limit_gets_nothing_until_it_reads() -> None:
    async with an_outlet(limit=1000) as (outlet, transport, reads):
        assert outlet.write(bytes(MORE_THAN_A_PIPE_HOLDS))

        assert not outlet.write(b"too much")
        await received(reads, MORE_THAN_A_PIPE_HOLDS)
        await until(lambda: not transport.get_write_buffer_size())
        assert outlet.write(b"after")
        assert await received(reads, 5) == b"after"


@pytest.mark.parametrize("message", [b"small", bytes(MORE_THAN_A_PIPE_HOLDS)])
async def test_nothing_is_written_after_the_end(message: bytes) -> None:
    async with an_outlet() as (outlet, transport, _):
        transport.abort()

        assert not outlet.write(message)


async def test_a_reader_that_left_is_noticed_by_the_transport() -> None:
    async with an_outlet() as (outlet, transport, reads):
        os.dup2(0, reads)  # closes what it was before

        outlet.write(b"anybody?")

        await until(transport.is_closing)
