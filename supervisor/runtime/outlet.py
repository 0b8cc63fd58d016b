"""Writing to a child or a client: at once when one message is under way, gathered when there are many.

A single message is written here and now, so its reader works while we still do our books. Many messages for
one reader are one system call, and wake it once. Whoever takes several messages out of one chunk says so with
`gathered`. The loop does not do that for us: transports write each message as it comes.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Generator

_ENOUGH = 64 * 1024
"""Bytes for one reader that are not kept back any longer."""
_MANY = 8
"""Messages for one reader that are not kept back any longer: it may begin while we take the rest."""

_gathering: list["Outlet"] | None = None
"""Who has something to write when the block of `gathered` ends that we are in. The loop has one thread."""


@contextlib.contextmanager
def gathered() -> Generator[None]:
    """Write what is written inside when the outermost block ends, each reader's messages in one piece."""
    global _gathering  # noqa: PLW0603 - see there
    if _gathering is not None:
        yield
        return
    _gathering = []
    try:
        yield
    finally:
        gathering, _gathering = _gathering, None
        for outlet in gathering:
            outlet.flush()


class Outlet:
    """One stream that we write to, in order, without blocking."""

    __slots__ = (
        "_descriptor",
        "_is_closing",
        "_kept",
        "_kept_bytes",
        "_limit",
        "_unwritten",
        "_write",
        "failed",
    )

    def __init__(
        self, transport: asyncio.WriteTransport, descriptor: int, *, limit: int = sys.maxsize
    ) -> None:
        self._descriptor, self._limit = descriptor, limit
        self._write, self._is_closing = transport.write, transport.is_closing
        self._unwritten = transport.get_write_buffer_size
        self._kept: list[bytes] = []
        """What waits for the end of a block of `gathered`, ..."""
        self._kept_bytes = 0
        """... and how much that is."""
        self.failed = False
        """Whether a message could not be written here and now, as to a reader that is gone or full."""

    def write(self, data: bytes) -> bool:
        """Write a message, and tell whether that was done.

        It is not, when the stream is closed or its reader leaves more than the limit untaken. What the reader
        does not take now, and errors, are the transport's.
        """
        if _gathering is not None:
            return self._keep(data, _gathering)
        if self._unwritten() or self._is_closing():
            return self._leave(data)
        self._write_now(data)
        return True

    def flush(self) -> None:
        """Write what is kept back; whoever closes the stream, or writes past this, does it before."""
        if self._kept:
            data = b"".join(self._kept)
            self._kept.clear()
            self._kept_bytes = 0
            if self._is_closing():
                return
            if self._unwritten():
                self._write(data)
            else:
                self._write_now(data)

    def _write_now(self, data: bytes) -> None:
        try:
            written = os.write(self._descriptor, data)
        except OSError:
            written, self.failed = 0, True
        if written != len(data):
            self._write(data[written:])

    def _keep(self, data: bytes, gathering: list["Outlet"]) -> bool:
        """Keep a message for the end of the block, as far as there is room."""
        if self._is_closing() or self._unwritten() + self._kept_bytes > self._limit:
            return False
        if not self._kept:
            gathering.append(self)
        self._kept.append(data)
        self._kept_bytes += len(data)
        if self._kept_bytes > _ENOUGH or len(self._kept) == _MANY:
            self.flush()
        return True

    def _leave(self, data: bytes) -> bool:
        """Leave a message to the transport, as far as there is room."""
        if self._is_closing() or self._unwritten() > self._limit:
            return False
        self._write(data)
        return True
