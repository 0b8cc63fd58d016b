"""One end of the hot path: a child's pipes as callbacks of the event loop.

anyio's streams cost a task switch and a copy per read; here a chunk goes from the loop straight to whoever
was given at connect. This and `surfaces.control` are the only modules that know the loop is asyncio's.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable

from supervisor.runtime.process import Pipes


class _Reader(asyncio.Protocol):
    def __init__(self, on_chunk: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_chunk, self._on_end = on_chunk, on_end

    def data_received(self, data: bytes) -> None:
        self._on_chunk(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self._on_end()


class _Writer(asyncio.Protocol):
    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
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
    with contextlib.ExitStack() as stack:
        # A file that no transport took over yet is closed by us; a transport closes its own.
        stdout, stderr, stdin = (
            stack.enter_context(os.fdopen(pipes.stdout, "rb", 0)),
            stack.enter_context(os.fdopen(pipes.stderr, "rb", 0)),
            stack.enter_context(os.fdopen(pipes.stdin, "wb", 0)),
        )
        output, _ = await loop.connect_read_pipe(lambda: _Reader(on_stdout, on_stdout_end), stdout)
        stack.callback(output.close)
        errors, _ = await loop.connect_read_pipe(lambda: _Reader(on_stderr, lambda: None), stderr)
        stack.callback(errors.close)
        child_input, _ = await loop.connect_write_pipe(lambda: _Writer(on_stdin_end), stdin)
        writer = ChildInput(child_input)
        stack.callback(writer.close)
        yield writer
