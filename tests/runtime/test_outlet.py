"""One message is written at once, many are gathered, and whatever does not go out now goes out in order."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from supervisor.runtime.outlet import Outlet, gathered
from tests.runtime.support import LOOPS, PATIENCE, until

pytestmark = LOOPS

MORE_THAN_A_PIPE_HOLDS = 1_000_000


@asynccontextmanager
async def an_outlet(limit: int = sys.maxsize) -> AsyncIterator[tuple[Outlet, asyncio.WriteTransport, int]]:
    """An outlet into a pipe, its transport, and the descriptor where it is read."""
    reads, writes = os.pipe()
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
