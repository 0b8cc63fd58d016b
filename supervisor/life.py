"""One life of the daemon, from the moment that it has a loop: puts the pieces together and heeds signals.

Nothing is decided here but order: serve, end what a dead daemon left, start the fleet, and on the first
SIGTERM or SIGINT stop everything; on the second, at once.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from supervisor import __version__
from supervisor.core.servers import Loaded
from supervisor.errors import SupervisorError
from supervisor.runtime import heap
from supervisor.runtime.bus import Bus, News, ReloadEvent
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.headstart import Ground
from supervisor.runtime.memory import Memory
from supervisor.runtime.reload import Reloader
from supervisor.runtime.signals import heard
from supervisor.runtime.stdio import Host
from supervisor.runtime.systemd import Given, Notifier
from supervisor.runtime.watch import Watcher
from supervisor.surfaces.control import Control
from supervisor.surfaces.endpoint import Place
from supervisor.surfaces.presence import Presence
from supervisor.surfaces.service import Service

logger = logging.getLogger("supervisor.daemon")
"""By which it is known in journals."""

_SETTLED = 2.0
"""Seconds after which the start is behind us, as a rule."""
_LEFTOVER_GRACE = 2.0


class Outset(Struct, frozen=True):
    """What a life begins with."""

    loaded: Loaded
    read: Callable[[Loaded], Loaded]
    memory: Memory
    place: Place
    listener: socket.socket
    given: Given
    ground: Ground


class Life:
    def __init__(self, outset: Outset) -> None:
        self._outset, ground = outset, outset.ground
        self._end = anyio.Event()
        self._bus = Bus()
        self._orphans = ground.orphans
        host = Host(ground.orphans, outset.memory, ground.spawner)
        self._fleet = Fleet(outset.loaded, host, dict(os.environ), self._bus)
        self._notifier = Notifier(outset.given.notify_address)
        self._reloader = Reloader(self._fleet, outset.loaded, outset.read, self._bus)
        self._reloader.announced = self._notifier.reloading

    async def main(
        self, find: Callable[[], Collection[Path]], places: Iterable[Path], heeded: Sequence[signal.Signals]
    ) -> None:
        """Live until told to end; the files are where `find` says, or will be at one of `places`."""
        outset = self._outset
        service = Service(
            fleet=self._fleet,
            bus=self._bus,
            reloader=self._reloader,
            memory=outset.memory,
            socket=outset.place.path,
            pid=os.getpid(),
            started_at=time.time(),
            shut_down=self._end.set,
        )
        settings = outset.loaded.settings
        control = Control(service, settings.limits)
        if outset.place.inherited is not None:
            control.admits = _whom_the_file_lets_in
        presence = Presence(control, self._notifier, outset.given.watchdog)
        watcher = Watcher(self._reloader, find, places=places)

        def retune(news: News) -> None:
            if isinstance(news, ReloadEvent):
                control.limits = self._reloader.loaded.settings.limits

        self._bus.subscribe(retune, lines=False)
        with heard(*heeded) as signals:
            # The pages first: whoever is answered at the socket finds them, too.
            async with (
                presence.serving(settings.http),
                control.serving(outset.listener),
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
        if not self._outset.ground.clear:
            await self._orphans.end_leftovers(grace=_LEFTOVER_GRACE)
        self._fleet.start()
        logger.info(
            "mcp-supervisor %s: listening at %s, %d servers",
            __version__,
            self._outset.place.path,
            len(self._fleet.members),
        )
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._reloader.run)
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
            await self._reloader.reload()


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
