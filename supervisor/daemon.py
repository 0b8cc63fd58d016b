"""The daemon from its first moment to its exit status.

Nothing is decided here but order: read the configuration, take the socket, begin the servers' processes, load
the rest meanwhile, and live (`supervisor.life`). So what is imported at the top is only what that needs.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct

from supervisor import logs
from supervisor.core.layers import GUARDS
from supervisor.core.paths import control_socket
from supervisor.core.servers import Loaded
from supervisor.core.spec import SupervisorSettings
from supervisor.errors import BAD_CONFIG, DONE, FAILED, SupervisorError
from supervisor.heeded import HEEDED, asked_to_end
from supervisor.journal import ADDRESS
from supervisor.runtime import heap
from supervisor.runtime.configfile import config_paths, config_places, load
from supervisor.runtime.headstart import Ground, prepared
from supervisor.runtime.memory import Memory, state_directory
from supervisor.runtime.orphans import Orphans, become_subreaper, instance_of
from supervisor.runtime.process import death_signal_prefix
from supervisor.runtime.rlimits import raise_open_files
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.systemd import Given, control_listener, take
from supervisor.surfaces.endpoint import Place, listening

logger = logging.getLogger(__name__)

_TURN = 0.0005
"""Seconds after which a thread that reads files or starts a server lets the loop work; Python's own ten times
as long is what a call waits, and less would cut the loop's own work in pieces."""


class Options(Struct, frozen=True):
    config: Sequence[str] = ()
    socket: str | None = None
    log_format: logs.LogFormat = "text"
    log_level: str = "info"
    loop: Literal["uvloop", "asyncio"] = "uvloop"


def serve(options: Options) -> int:
    """Run the daemon until it is told to end; returns the exit status.

    The caller has held back the signals that are heeded.
    """
    journal = ADDRESS if logs.reaches_journal(os.environ, sys.stderr) else None
    logs.configure(options.log_format, options.log_level, journal=journal, stream=sys.stderr)
    if sys.platform != "linux":
        logger.error("cannot run here: the daemon needs Linux (pidfd, subreaper); clients work anywhere")
        return FAILED
    raise_open_files()
    heap.steady()
    sys.setswitchinterval(_TURN)
    home = _Home(options, take(os.environ, pid=os.getpid()))

    def find() -> tuple[Path, ...]:
        return config_paths(options.config, os.environ)

    def read(last: Loaded | None = None) -> Loaded:
        paths = find()
        loaded = load(paths, os.environ, overrides=home.overrides, last=last)
        # An editor that saves by renaming has the file away for a moment, and another place looked right.
        return loaded if find() == paths else read(last)

    try:
        loaded = read()
        _report(loaded)
        if loaded.unreadable or _unguarded(loaded):
            return BAD_CONFIG
        place, memory = home.found(loaded.settings)
        if asked_to_end():
            return DONE
        with listening(place) as listener, _ground(place, loaded) as ground:
            # Most of the daemon, loaded while the servers start.
            from supervisor.life import Life, Outset

            outset = Outset(loaded, read, memory, place, listener, home.given, ground)

            async def live() -> None:
                await Life(outset).main(find, config_places(options.config, os.environ), HEEDED)

            anyio.run(live, backend_options={"use_uvloop": options.loop == "uvloop"})
    except SupervisorError as exc:
        logger.error("%s", exc)
        return exc.exit_status
    return DONE


@contextlib.contextmanager
def _ground(place: Place, loaded: Loaded) -> Generator[Ground]:
    """What the servers' processes stand on, and those that can be begun at once."""
    adopts = become_subreaper()
    if not adopts:
        logger.warning("cannot become the subreaper: what leaves its process group may be missed")
    spawner, orphans = Spawner(death_signal_prefix), Orphans(instance_of(place.path), adopts=adopts)
    try:
        yield prepared(loaded, os.environ, orphans, spawner)
    finally:
        spawner.abandon()
        orphans.kill_all()


class _Home:
    """Where this daemon is met and what it remembers there; what was settled first stays."""

    def __init__(self, options: Options, given: Given) -> None:
        self._options, self.given = options, given
        self._found: tuple[Place, Memory] | None = None

    def found(self, settings: SupervisorSettings) -> tuple[Place, Memory]:
        """Raises: BadConfig, when no socket can be where it should be."""
        if self._found is None:
            place = _place(self._options, self.given, settings)
            directory = state_directory(os.environ)
            path = None if directory is None else directory / "memory.json"
            self._found = place, Memory(path, instance=instance_of(place.path))
        return self._found

    def overrides(self, settings: SupervisorSettings) -> Mapping[str, bool]:
        return self.found(settings)[1].overrides


def _place(options: Options, given: Given, settings: SupervisorSettings) -> Place:
    """Raises: BadConfig, when no socket can be where it should be."""
    listener = control_listener(given.sockets)
    if listener is not None:
        if options.socket is None and "MCP_SUPERVISOR_SOCKET" not in os.environ:
            return Place(str(listener.getsockname()), listener)
        logger.warning("not listening at systemd's socket: another one was chosen")
        listener.close()
    path = control_socket(options.socket, os.environ, uid=os.getuid(), configured=settings.socket)
    return Place(path)


def _report(loaded: Loaded) -> None:
    for problem in loaded.problems:
        logger.error("config: %s", problem)
    for notice in loaded.notices:
        logger.warning("config: %s", notice)
    found = [file.path for file in loaded.files if file.found]
    if not found:
        tried = ", ".join(file.path for file in loaded.files) or "nowhere"
        logger.warning("no config file found (looked at %s): running with zero servers", tried)
    elif not loaded.servers:
        logger.warning("no servers in %s: running with zero servers", ", ".join(found))


def _unguarded(loaded: Loaded) -> bool:
    """Whether nobody knows which tools may be called, and that was said."""
    wrong = sorted(loaded.wrong_settings & GUARDS)
    if wrong:
        names = " and ".join(f"supervisor.{key}" for key in wrong)
        logger.error("cannot start without knowing which tools may be called: correct %s", names)
    return bool(wrong)
