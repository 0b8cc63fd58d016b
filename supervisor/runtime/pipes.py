"""One end of the hot path: a child's pipes as callbacks of the event loop.

anyio's streams cost a task switch and a copy per read; here a chunk goes from the loop straight to whoever
was given at connect. This is one of the few modules that know the loop is asyncio's.
"""

import asyncio
import contextlib
import fcntl
import functools
import os
import sys
import termios
import time
from collections.abc import AsyncGenerator, Callable
from typing import cast

import anyio
from msgspec import Struct

from supervisor.core.pace import AWAITED, IDLE, Pace
from supervisor.runtime.outlet import Outlet
from supervisor.runtime.process import Pipes
from supervisor.runtime.wakefulness import Wakefulness

_MUCH = 64 * 1024
"""Bytes in one piece after which others come first."""
_LITTLE = 8 * 1024
"""Bytes that are taken as they come, while nobody was heard to talk idly; and of last words in one piece."""
_INT = 4
"""Bytes of C's `int`."""
_SIP = 512
"""Bytes of idle talk that are taken without a look at the time."""

Heard = Callable[[bytes], bool]
"""Takes a chunk, and tells whether there was anything in it that nobody asked for."""


class _Reader(asyncio.Protocol):
    """One pipe of a child. What answers somebody is taken as it comes, what nobody asked for at a pace."""

    def __init__(
        self, descriptor: int, on_chunk: Heard, on_end: Callable[[], None], ears: "Ears", sip: int = _SIP
    ) -> None:
        self._descriptor = descriptor
        self._on_chunk, self._on_end, self._sip = on_chunk, on_end, sip
        self._may_rest, self._awaited = ears.may_rest, ears.awaited
        self.closed = anyio.Event()
        self._idle_talk = False
        """Whether the last chunk had something in it that nobody asked for."""
        self.pace = Pace()
        self._read, self._heard = b"", 0
        """What was read and has to wait, and how much of it was heard; nothing is read meanwhile."""
        self._rest: asyncio.TimerHandle | None = None
        self._heard_out = anyio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        if self._idle_talk or len(data) > _LITTLE:
            self._take(data)
        else:
            self._idle_talk = self._on_chunk(data)

    def _take(self, data: bytes, at: int = 0) -> bool:
        """Take a large chunk, or one of a child that talks idly, in pieces; tells whether to read on."""
        size, others_first = self._sip, at + _LITTLE
        while at < len(data):
            began = time.thread_time()  # our own work: on a busy machine much time passes without any
            self._idle_talk = self._on_chunk(data[at : at + size])
            at, size = at + size, self._sip if self._idle_talk else _MUCH
            if self._idle_talk:
                share = AWAITED if self._awaited() else IDLE
                rest = self.pace.rest(time.thread_time() - began, time.monotonic(), share)
                may_rest = self._may_rest()
                if rest and (may_rest or at >= others_first):
                    self._read, self._heard = data, at
                    self._pause(rest if may_rest else 0)
                    return False
        if len(data) >= _MUCH:
            # uvloop would read on for as long as the child has something to say.
            self._pause(0)
            return False
        return True

    def _pause(self, seconds: float) -> None:
        """Take no more for a while; what the child says meanwhile stays in its pipe, which holds it up."""
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._rest = asyncio.get_running_loop().call_later(seconds, self._go_on)

    async def heard_out(self) -> None:
        """Wait until all that is in the pipe now has been heard, without a rest."""
        left, done, on_chunk = self._unheard(), self._heard_out, self._on_chunk

        def counted(chunk: bytes) -> bool:
            nonlocal left
            left -= len(chunk)
            if left <= 0:
                done.set()
            return on_chunk(chunk)

        if left:
            self._on_chunk = counted
            if self._rest is not None:
                self._rest.cancel()
                self._go_on()
            await done.wait()

    def _unheard(self) -> int:
        """Bytes that were read and wait, and those in the pipe."""
        if self.closed.is_set() or self._transport.is_closing():
            return 0
        count = fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(_INT))
        return int.from_bytes(count, sys.byteorder) + len(self._read) - (self._heard if self._read else 0)

    def _go_on(self) -> None:
        self._rest = None
        if self._transport.is_closing():
            return
        data, self._read = self._read, b""
        read_on = True
        try:
            read_on = not data or self._take(data, self._heard)
        finally:
            if read_on and not self._transport.is_closing():
                self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self.closed.set()
        self._heard_out.set()
        self._on_end()
        # Who hears us holds us, too: let go, so that both are gone at once and not when the collector comes.
        self._on_chunk, self._on_end = _heard_by_nobody, _nothing_more
        self._may_rest = self._awaited = bool


class _Writer(asyncio.Protocol):
    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.closed = anyio.Event()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self.closed.set()
        self._on_end()


class ChildInput:
    """What is written here reaches the child's standard input, in order, without blocking us."""

    def __init__(self, transport: asyncio.WriteTransport, descriptor: int, *, limit: int) -> None:
        self._transport = transport
        self._outlet = Outlet(transport, descriptor, limit=limit)
        self.write = self._outlet.write

    @property
    def untaken(self) -> int:
        """Bytes that wait here because the child does not read; what its pipe holds is not counted."""
        return self._transport.get_write_buffer_size()

    @property
    def failed(self) -> bool:
        """Whether something could not be written because the child was gone, or full."""
        return self._outlet.failed

    @property
    def closed(self) -> bool:
        """Whether the child, or we, have closed it."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close at once; a child that does not read would otherwise hold what is buffered for ever."""
        if not self._transport.is_closing():
            self._transport.abort()


class ChildPipes:
    """The child's three pipes, while they are attached."""

    def __init__(self, input_: ChildInput, output: _Reader, errors: _Reader, awake: Wakefulness) -> None:
        self.input, self.awake = input_, awake
        self._output, self._errors = output, errors

    async def heard_out(self) -> None:
        """Wait until all that the child has said so far was heard."""
        await self._output.heard_out()
        await self._errors.heard_out()


class Ears(Struct, frozen=True):
    """Who hears a child."""

    on_stdout: Heard
    on_stderr: Callable[[bytes, bool], None]
    """Told with each chunk whether there is more than can be read with care."""
    on_stdout_end: Callable[[], None]
    on_stdin_end: Callable[[], None]
    may_rest: Callable[[], bool] = lambda: True
    """Whether to rest from a child that says much which nobody asked for."""
    awaited: Callable[[], bool] = lambda: True
    """Whether somebody waits for an answer of the child."""


@contextlib.asynccontextmanager
async def connected(pipes: Pipes, ears: Ears, *, untaken: int = sys.maxsize) -> AsyncGenerator[ChildPipes]:
    """Attach the pipes to the loop; all three are closed on the way out.

    A child that leaves more than `untaken` bytes of its input untaken gets no more until it reads.
    """
    loop = asyncio.get_running_loop()
    output = _Reader(pipes.stdout, ears.on_stdout, ears.on_stdout_end, ears)
    errors = _errors(pipes.stderr, ears)
    child_input = _Writer(ears.on_stdin_end)
    with contextlib.ExitStack() as transports:
        writer = await _attached(loop, pipes, (output, errors, child_input), transports, untaken)
        try:
            yield ChildPipes(writer, output, errors, Wakefulness(loop.call_soon))
        finally:
            transports.close()
            with anyio.CancelScope(shield=True):
                for end in (output, errors, child_input):
                    await end.closed.wait()


def _heard_by_nobody(_chunk: bytes) -> bool:
    """What comes when all is over."""
    return False


def _nothing_more() -> None:
    """A child need not keep its standard error open."""


def _errors(descriptor: int, ears: Ears) -> _Reader:
    """The reader of standard error: all of it is idle talk, and much of that is quickly skimmed."""

    def heard(chunk: bytes) -> bool:
        ears.on_stderr(chunk, reader.pace.floods)
        return True

    reader = _Reader(descriptor, heard, _nothing_more, ears, sip=_MUCH)
    return reader


async def _attached(
    loop: asyncio.AbstractEventLoop,
    pipes: Pipes,
    ends: tuple[_Reader, _Reader, _Writer],
    transports: contextlib.ExitStack,
    untaken: int,
) -> ChildInput:
    """Hand the pipes over to transports, which close them."""
    output, errors, child_input = ends
    # asyncio closes the file that it is given. uvloop closes the descriptor and then the file as well, which
    # would be whatever another thread has opened under that number in between.
    file = functools.partial(os.fdopen, buffering=0, closefd=isinstance(loop, asyncio.BaseEventLoop))
    ours = [pipes.stdin, pipes.stderr, pipes.stdout]
    try:
        with anyio.CancelScope(shield=True):  # not to be cut in two
            transport, _ = await loop.connect_read_pipe(lambda: output, file(ours.pop(), "rb"))
            transports.callback(transport.close)
            transport, _ = await loop.connect_read_pipe(lambda: errors, file(ours.pop(), "rb"))
            transports.callback(transport.close)
            sink, _ = await loop.connect_write_pipe(lambda: child_input, file(ours.pop(), "wb"))
            writer = ChildInput(sink, pipes.stdin, limit=untaken)
            transports.callback(writer.close)
            return writer
        raise AssertionError("unreachable")  # pragma: no cover - a shield swallows nothing
    finally:
        for descriptor in ours:
            os.close(descriptor)
