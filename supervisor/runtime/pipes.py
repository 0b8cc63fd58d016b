"""One end of the hot path: a child's pipes as callbacks of the event loop.

anyio's streams cost a task switch and a copy per read; here a chunk goes from the loop straight to whoever
was given at connect. This and `surfaces.control` are the only modules that know the loop is asyncio's.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable

import anyio

from supervisor.runtime.process import Pipes


class _Reader(asyncio.Protocol):
    def __init__(self, on_chunk: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_chunk, self._on_end = on_chunk, on_end
        self.closed = anyio.Event()

    def data_received(self, data: bytes) -> None:
        self._on_chunk(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self.closed.set()
        self._on_end()


class _Writer(asyncio.Protocol):
    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.closed = anyio.Event()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self.closed.set()
        self._on_end()


class ChildInput:
    """What is written here reaches the child's standard input, in order, without blocking us."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self.write = transport.write

    @property
    def closed(self) -> bool:
        """Whether the child, or we, have closed it."""
        return self._transport.is_closing()

    @property
    def backlog(self) -> int:
        """Bytes that the child has not taken yet; beyond every limit once it takes nothing any more."""
        return sys.maxsize if self._transport.is_closing() else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close at once; a child that does not read would otherwise hold what is buffered for ever."""
        if not self._transport.is_closing():
            self._transport.abort()


@contextlib.asynccontextmanager
async def connected(
    pipes: Pipes,
    *,
    on_stdout: Callable[[bytes], None],
    on_stderr: Callable[[bytes], None],
    on_stdout_end: Callable[[], None],
    on_stdin_end: Callable[[], None],
) -> AsyncGenerator[ChildInput]:
    """Attach the pipes to the loop; all three are closed on the way out."""
    loop = asyncio.get_running_loop()
    output, errors = _Reader(on_stdout, on_stdout_end), _Reader(on_stderr, lambda: None)
    child_input = _Writer(on_stdin_end)
    with contextlib.ExitStack() as transports:
        # A transport closes its own file, and uvloop does so by number: a file that we closed too would take
        # with it whatever has that number by then. So files are ours only until all are handed over.
        with contextlib.ExitStack() as files, anyio.CancelScope(shield=True):
            stdout = files.enter_context(os.fdopen(pipes.stdout, "rb", 0))
            stderr = files.enter_context(os.fdopen(pipes.stderr, "rb", 0))
            stdin = files.enter_context(os.fdopen(pipes.stdin, "wb", 0))
            transports.callback((await loop.connect_read_pipe(lambda: output, stdout))[0].close)
            transports.callback((await loop.connect_read_pipe(lambda: errors, stderr))[0].close)
            writer = ChildInput((await loop.connect_write_pipe(lambda: child_input, stdin))[0])
            transports.callback(writer.close)
            files.pop_all()
        try:
            yield writer
        finally:
            transports.close()
            with anyio.CancelScope(shield=True):
                for end in (output, errors, child_input):
                    await end.closed.wait()
