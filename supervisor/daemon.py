"""The daemon: puts the pieces together, owns the signals, and ends with an exit status.

Nothing is decided here but order: read the configuration, take the socket, end what a dead daemon left,
start the fleet, serve, and on the first SIGTERM or SIGINT stop everything; on the second, at once.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from supervisor import __version__, logs
from supervisor.core.layers import GUARDS
from supervisor.core.paths import control_socket
from supervisor.core.servers import Loaded
from supervisor.core.spec import SupervisorSettings
from supervisor.errors import BAD_CONFIG, DONE, FAILED, SupervisorError
from supervisor.journal import ADDRESS
from supervisor.runtime import heap
from supervisor.runtime.bus import Bus, News, ReloadEvent
from supervisor.runtime.configfile import config_paths, config_places, load
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.memory import Memory, state_directory
from supervisor.runtime.orphans import Orphans, become_subreaper, instance_of
from supervisor.runtime.process import death_signal_prefix
from supervisor.runtime.reload import Reloader
from supervisor.runtime.rlimits import raise_open_files
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.stdio import Host
from supervisor.runtime.systemd import Given, Notifier, control_listener, take
from supervisor.runtime.watch import Watcher
from supervisor.surfaces.control import Control
from supervisor.surfaces.endpoint import listening
from supervisor.surfaces.presence import Presence
from supervisor.surfaces.service import Service

logger = logging.getLogger(__name__)

_SETTLED = 2.0
"""Seconds after which the start is behind us, as a rule."""
_LEFTOVER_GRACE = 2.0


class Options(Struct, frozen=True):
    config: Sequence[str] = ()
    socket: str | None = None
    log_format: logs.LogFormat = "text"
    log_level: str = "info"
    loop: Literal["uvloop", "asyncio"] = "uvloop"


def serve(options: Options) -> int:
    """Run the daemon until it is told to end; returns the exit status."""
    journal = ADDRESS if logs.reaches_journal(os.environ, sys.stderr) else None
    logs.configure(options.log_format, options.log_level, journal=journal, stream=sys.stderr)
    if sys.platform != "linux":
        logger.error("cannot run here: the daemon needs Linux (pidfd, subreaper); clients work anywhere")
        return FAILED
    raise_open_files()
    heap.steady()
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

        async def live() -> None:
            daemon = _Daemon(loaded, read, place, memory)
            places = config_places(options.config, os.environ)
            await daemon.main(Watcher(daemon.reloader, find, places=places))

        anyio.run(live, backend_options={"use_uvloop": options.loop == "uvloop"})
    except SupervisorError as exc:
        logger.error("%s", exc)
        return exc.exit_status
    return DONE


class _Place(Struct, frozen=True):
    """Where the daemon is met, and who may come."""

    path: str
    listener: socket.socket | None
    """Opened for us by systemd."""
    given: Given


class _Home:
    """Where this daemon is met and what it remembers there; what was settled first stays."""

    def __init__(self, options: Options, given: Given) -> None:
        self._options, self._given = options, given
        self._found: tuple[_Place, Memory] | None = None

    def found(self, settings: SupervisorSettings) -> tuple[_Place, Memory]:
        """Raises: BadConfig, when no socket can be where it should be."""
        if self._found is None:
            place = _place(self._options, self._given, settings)
            directory = state_directory(os.environ)
            path = None if directory is None else directory / "memory.json"
            self._found = place, Memory(path, instance=instance_of(place.path))
        return self._found

    def overrides(self, settings: SupervisorSettings) -> Mapping[str, bool]:
        return self.found(settings)[1].overrides


def _place(options: Options, given: Given, settings: SupervisorSettings) -> _Place:
    """Raises: BadConfig, when no socket can be where it should be."""
    listener = control_listener(given.sockets)
    if listener is not None:
        if options.socket is None and "MCP_SUPERVISOR_SOCKET" not in os.environ:
            return _Place(str(listener.getsockname()), listener, given)
        logger.warning("not listening at systemd's socket: another one was chosen")
        listener.close()
    path = control_socket(options.socket, os.environ, uid=os.getuid(), configured=settings.socket)
    return _Place(path, None, given)


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


class _Daemon:
    """One life of the daemon."""

    def __init__(
        self, loaded: Loaded, read: Callable[[Loaded], Loaded], place: _Place, memory: Memory
    ) -> None:
        self._place, self._path, self._memory = place, place.path, memory
        self._end = anyio.Event()
        self._bus = Bus()
        adopts = become_subreaper()
        if not adopts:
            logger.warning("cannot become the subreaper: what leaves its process group may be missed")
        self._orphans = Orphans(instance_of(place.path), adopts=adopts)
        host = Host(self._orphans, memory, Spawner(death_signal_prefix))
        self._fleet = Fleet(loaded, host, dict(os.environ), self._bus)
        self._notifier = Notifier(place.given.notify_address)
        self.reloader = Reloader(self._fleet, loaded, read, self._bus)
        self.reloader.announced = self._notifier.reloading

    async def main(self, watcher: Watcher) -> None:
        # Signals first: whoever finds our socket may already send one.
        with (
            anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals,
            listening(self._path, self._place.listener) as listener,
        ):
            service = Service(
                fleet=self._fleet,
                bus=self._bus,
                reloader=self.reloader,
                memory=self._memory,
                socket=self._path,
                pid=os.getpid(),
                started_at=time.time(),
                shut_down=self._end.set,
            )
            settings = self.reloader.loaded.settings
            control = Control(service, settings.limits)
            if self._place.listener is not None:
                control.admits = _whom_the_file_lets_in
            presence = Presence(control, self._notifier, self._place.given.watchdog)

            def retune(news: News) -> None:
                if isinstance(news, ReloadEvent):
                    control.limits = self.reloader.loaded.settings.limits

            self._bus.subscribe(retune, lines=False)
            # The pages first: whoever is answered at the socket finds them, too.
            async with (
                presence.serving(settings.http),
                control.serving(listener),
                anyio.create_task_group() as tg,
            ):
                tg.start_soon(self._orphans.watch)
                tg.start_soon(self._heed, signals, tg)
                async with self._fleet.running():
                    await self._run(watcher, presence)
                await self._orphans.sweep_all()
                tg.cancel_scope.cancel()
        logger.info("stopped, nothing left")

    async def _run(self, watcher: Watcher, presence: Presence) -> None:
        await self._orphans.end_leftovers(grace=_LEFTOVER_GRACE)
        self._fleet.start()
        logger.info(
            "mcp-supervisor %s: listening at %s, %d servers",
            __version__,
            self._path,
            len(self._fleet.members),
        )
        async with anyio.create_task_group() as tg:
            tg.start_soon(self.reloader.run)
            tg.start_soon(watcher.run)
            tg.start_soon(presence.tell)
            tg.start_soon(_settle)
            tg.start_soon(heap.tend)
            await self._end.wait()
            presence.leave()
            # A reload that runs is given up: nothing new may start while everything stops.
            tg.cancel_scope.cancel()
        logger.info("stopping %d servers", len(self._fleet.members))

    async def _heed(self, signals: AsyncIterator[signal.Signals], tg: TaskGroup) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                tg.start_soon(self._reload)
            elif self._end.is_set():
                logger.warning("%s again: killing all servers at once", number.name)
                self._fleet.kill()
            else:
                logger.info("%s: shutting down", number.name)
                self._end.set()

    async def _reload(self) -> None:
        with contextlib.suppress(SupervisorError):  # the reloader has said what is wrong
            await self.reloader.reload()


async def _settle() -> None:
    """Keep the collector from looking again and again at what lives as long as the daemon.

    `run` has put it off while things are loaded; here it would only hold up the servers' start.
    """
    await anyio.sleep(_SETTLED)
    gc.collect()
    gc.freeze()
    gc.enable()


def _whom_the_file_lets_in(_uid: int) -> bool:
    """At systemd's socket its owner, group and mode decide: the kernel held every peer against them."""
    return True
