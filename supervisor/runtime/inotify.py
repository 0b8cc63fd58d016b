"""Being told by the kernel that something happened to some names in directories, through a descriptor.

Says that something did, never what: whoever is told has to look. Only that a directory is not where it was is
told apart, because what comes in its place is not watched. It needs no thread, and wakes nobody while nothing
happens; what happens to other names, as to a log beside the file, costs a read and wakes nobody either.
"""

import ctypes
import errno
import os
import struct
from collections import defaultdict
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
"""Watch, what happened, a cookie, and the length of the name that follows: none where it is the directory."""

Entry = tuple[Path, str]
"""A name in a directory."""

_NOTHING_TO_WATCH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES})
_MANY_EVENTS = 64 * 1024


class Notifier:
    """Watches entries from its making on, so that nothing between arming and looking is lost."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """A directory that is not there, or not for us to see, is left out.

        Raises:
            OSError: The kernel has no more watches to give.
        """
        self.stale = False
        """Whether a directory may not be where it was, so that another notifier has to be made."""
        self._names: defaultdict[int, set[bytes]] = defaultdict(set)
        """Those that matter, by the watch on their directory."""
        self._descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _failure()
        try:
            for directory, name in entries:
                self._watch(directory, os.fsencode(name))
        except OSError:
            self.close()
            raise

    def _watch(self, directory: Path, name: bytes) -> None:
        watch = _LIBC.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if watch >= 0:
            self._names[watch].add(name)
            return
        failure = _failure()
        if failure.errno not in _NOTHING_TO_WATCH:
            raise failure

    async def news(self) -> None:
        """Wait until something that matters has happened since the last time."""
        while True:
            await anyio.wait_readable(self._descriptor)
            if self._matter():
                return

    def _matter(self) -> bool:
        """Whether any of the events that wait is about a name that matters, or about a directory itself."""
        found = False
        with suppress(BlockingIOError):
            while events := os.read(self._descriptor, _MANY_EVENTS):
                for watch, what, name in _happened(events):
                    self.stale = self.stale or bool(what & _GONE)
                    found = found or not name or name in self._names[watch]
        return found

    def close(self) -> None:
        os.close(self._descriptor)


def _happened(events: bytes) -> Iterator[tuple[int, int, bytes]]:
    """What each event says: which watch, what, and to which name."""
    place = 0
    while place < len(events):
        watch, what, _, length = _EVENT.unpack_from(events, place)
        place += _EVENT.size
        yield watch, what, events[place : place + length].rstrip(b"\0")
        place += length


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
