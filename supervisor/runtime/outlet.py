"""Writing to a child or a client: at once when one message is under way, gathered when there are many.

A transport writes when the loop comes round again, which gathers what many messages have for one reader
into one system call. A single message would only wait for it: it is written here and now, so its reader
works while we still do our books. Whoever takes several messages out of one chunk says so with `gathered`.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Generator

_many = 0
"""How many blocks of `gathered` we are in. The loop has one thread, so a plain number will do."""


@contextlib.contextmanager
def gathered() -> Generator[None]:
    """Leave what is written inside to the transports."""
    global _many  # noqa: PLW0603 - see there
    _many += 1
    try:
        yield
    finally:
        _many -= 1


class Outlet:
    """One stream that we write to, in order, without blocking."""

    __slots__ = ("_descriptor", "_is_closing", "_limit", "_unwritten", "_write", "failed")

    def __init__(
        self, transport: asyncio.WriteTransport, descriptor: int, *, limit: int = sys.maxsize
    ) -> None:
        self._descriptor, self._limit = descriptor, limit
        self._write, self._is_closing = transport.write, transport.is_closing
        self._unwritten = transport.get_write_buffer_size
        self.failed = False
        """Whether a message could not be written here and now, as to a reader that is gone or full."""

    def write(self, data: bytes) -> bool:
        """Write a message, and tell whether that was done.

        It is not, when the stream is closed or its reader leaves more than the limit untaken. What the reader
        does not take now, and errors, are the transport's.
        """
        if _many or self._unwritten() or self._is_closing():
            return self._leave(data)
        try:
            written = os.write(self._descriptor, data)
        except OSError:
            written, self.failed = 0, True
        if written != len(data):
            self._write(data[written:])
        return True

    def _leave(self, data: bytes) -> bool:
        """Leave a message to the transport, as far as there is room."""
        if self._is_closing() or self._unwritten() > self._limit:
            return False
        self._write(data)
        return True
