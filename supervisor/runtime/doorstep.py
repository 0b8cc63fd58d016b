"""Whether a child that died without a word had taken what was put on its doorstep.

One that read our question and died may have died of it, and deserves another question. One that left it
unread died of something else, and would do so again.
"""

import contextlib
import fcntl
import os
import struct
import termios
from types import TracebackType
from typing import Self


class Doorstep:
    """The pipe to a child's standard input, seen from our side even after the child's end is closed.

    As long as this is open, the child's input has no end, so it is to be left whenever that is to be closed.
    """

    def __init__(self, stdin: int) -> None:
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # too many files: then nothing is known, and more is tried
            self._descriptor = os.dup(stdin)
        self.untaken = 0
        """Bytes that the child had left there when we left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Look for the last time, and close our side; once is enough."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with contextlib.suppress(OSError):
            (self.untaken,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
        os.close(descriptor)
