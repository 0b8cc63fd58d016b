"""Being told by the kernel that something happened in some directories, through a descriptor to wait for.

Says that something did, never what: whoever is told has to look. Only that a directory is not where it was is
told apart, because what comes in its place is not watched. It needs no thread, and wakes nobody while nothing
happens.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio

_LIBC = ctypes.CDLL(None, use_errno=True)

# From <sys/inotify.h>.
_WRITTEN = 0x002 | 0x004 | 0x008
"""Contents, attributes, the end of writing."""
_RENAMED = 0x040 | 0x080 | 0x800
"""Away, hither, and the directory itself."""
_MADE_OR_REMOVED = 0x100 | 0x200 | 0x400
_ONLY_DIRECTORIES = 0x01000000
_MASK = _WRITTEN | _RENAMED | _MADE_OR_REMOVED | _ONLY_DIRECTORIES

_GONE = 0x400 | 0x800 | 0x2000 | 0x4000 | 0x8000
"""The directory itself was removed, moved or unmounted, or is not watched any more; or events were lost."""
_EVENT = struct.Struct("iIII")
"""Watch, what happened, a cookie, and the length of the name that follows."""

_NOTHING_TO_WATCH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES})
_MANY_EVENTS = 64 * 1024


class Notifier:
    """Watches directories from its making on, so that nothing between arming and looking is lost."""

    def __init__(self, directories: Iterable[Path]) -> None:
        """A directory that is not there, or not for us to see, is left out.

        Raises:
            OSError: The kernel has no more watches to give.
        """
        self.stale = False
        """Whether a directory may not be where it was, so that another notifier has to be made."""
        self._descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _failure()
        try:
            for directory in directories:
                self._watch(directory)
        except OSError:
            self.close()
            raise

    def _watch(self, directory: Path) -> None:
        if _LIBC.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK) < 0:
            failure = _failure()
            if failure.errno not in _NOTHING_TO_WATCH:
                raise failure

    async def news(self) -> None:
        """Wait until something has happened since the last time."""
        await anyio.wait_readable(self._descriptor)
        with suppress(BlockingIOError):
            while events := os.read(self._descriptor, _MANY_EVENTS):
                self.stale = self.stale or any(what & _GONE for what in _happened(events))

    def close(self) -> None:
        os.close(self._descriptor)


def _happened(events: bytes) -> Iterator[int]:
    """What each event says."""
    place = 0
    while place < len(events):
        _, what, _, length = _EVENT.unpack_from(events, place)
        yield what
        place += _EVENT.size + length


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
