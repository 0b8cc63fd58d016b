"""Noticing that the configuration changed on disk, and asking for a reload.

Directories are watched and not files, because most programs save by renaming a new file over the old one,
and Kubernetes by swapping a link. What happened there is only a hint to look: whether to reload is decided
by comparing every file that was read last with what is there now, so that no change is missed, whenever it
came. Other names there, as of a log beside the configuration, are no hint. What the files mean is not known
here.
"""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from supervisor.errors import SupervisorError
from supervisor.runtime.configfile import fingerprint
from supervisor.runtime.inotify import Entry, Notifier
from supervisor.runtime.reload import Reloader

logger = logging.getLogger(__name__)

_QUIET = 0.05
"""Seconds without news after which a burst counts as over ..."""
_LONGEST_BURST = 0.2
"""... and after which it is looked at in any case."""
_UNASKED = 5.0
"""Seconds after which to look unasked: some file systems tell nothing, and a directory far above the
file may be moved."""
_POLL = 1.0
"""Seconds between two looks where the system does not tell of changes."""
_MAX_LINKS = 40


class Watcher:
    """Has the configuration reloaded whenever what it was made of has changed."""

    def __init__(
        self, reloader: Reloader, find: Callable[[], Collection[Path]], *, places: Iterable[Path]
    ) -> None:
        self._reloader = reloader
        self._find = find
        """The configuration files to be read as things are."""
        self._places = frozenset(places)
        """Where such a file may yet appear."""
        self._polls = False

    async def run(self) -> None:
        """Watch and reload, until cancelled."""
        while True:
            there = await run_sync(_identities, self._files())
            with self._listening(entry for entry, _ in there) as notifier:
                await self._follow(there, notifier)

    async def _follow(self, there: "frozenset[Identity]", notifier: Notifier | None) -> None:
        """Reload on every change, until others have to be watched, or other directories of their names."""
        while True:
            if await run_sync(self._differs, self._reloader.seen):
                await self._reload()
            if there != await run_sync(_identities, self._files()):
                return
            if notifier is not None and notifier.stale:
                return
            await _news(notifier)

    def _files(self) -> frozenset[Path]:
        return self._places.union(map(Path, self._reloader.seen))

    def _differs(self, seen: Mapping[str, str]) -> bool:
        """Whether a file is not as it was read, or another one is to be read."""
        if any(fingerprint(Path(path)) != then for path, then in seen.items()):
            return True
        return any(str(path) not in seen for path in self._find())

    async def _reload(self) -> None:
        """Have it read; what follows is not waited for, as the next save may come first."""
        with suppress(SupervisorError):  # the reloader has said what is wrong
            await self._reloader.begin()

    @contextmanager
    def _listening(self, entries: Iterable[Entry]) -> Generator[Notifier | None]:
        """What tells of changes to these; None when nothing can."""
        try:
            notifier = Notifier(entries)
        except OSError as error:
            self._say_once(error)
            yield None
            return
        with closing(notifier):
            yield notifier

    def _say_once(self, error: Exception) -> None:
        if not self._polls:
            self._polls = True
            logger.warning(
                "cannot be told of changes to the configuration, so it is looked at every %g s: %s; "
                "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches",
                _POLL,
                error,
            )


async def _news(notifier: Notifier | None) -> None:
    """Wait until something may have changed, and has been quiet since."""
    if notifier is None:
        await anyio.sleep(_POLL)
        return
    with anyio.move_on_after(_UNASKED):
        await notifier.news()
        await _quiet(notifier)


async def _quiet(notifier: Notifier) -> None:
    """Wait until a burst is over, or has lasted long enough."""
    with anyio.move_on_after(_LONGEST_BURST):
        over = False
        while not over:
            with anyio.move_on_after(_QUIET) as pause:
                await notifier.news()
            over = pause.cancelled_caught


Identity = tuple[Entry, tuple[int, int] | None]
"""An entry, and which directory it is in: after a swap another one has its name."""


def _identities(files: Iterable[Path]) -> frozenset[Identity]:
    """The entries to watch, as they are now."""
    return frozenset(((directory, name), _identity(directory)) for directory, name in entries_of(files))


def _identity(directory: Path) -> tuple[int, int] | None:
    try:
        status = directory.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def entries_of(files: Iterable[Path]) -> frozenset[Entry]:
    """What something must happen to before one of the files is another."""
    return frozenset(entry for file in files for entry in _on_the_way(file))


def _on_the_way(file: Path) -> Iterator[Entry]:
    """Every link that leads to the file, and its name, or that of what is missing, in the last directory."""
    here = Path("/")
    ahead = list(reversed(file.absolute().parts[1:]))
    links = 0
    while ahead:
        name = ahead.pop()
        step = here.parent if name == ".." else here / name
        target = _target(step)
        if target is not None and links < _MAX_LINKS:
            links += 1
            yield here, name
            here = Path("/") if target.is_absolute() else here
            ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        elif ahead and _is_directory(step):
            here = step
        else:
            yield here, name
            return


def _target(step: Path) -> Path | None:
    try:
        return step.readlink()
    except OSError:
        return None


def _is_directory(step: Path) -> bool:
    try:
        return step.is_dir()
    except OSError:
        return False
