"""A control socket, and a fleet behind it, in this process."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from supervisor.runtime.bus import Bus
from supervisor.runtime.memory import Memory
from supervisor.runtime.reload import Reloader
from supervisor.surfaces.control import Control
from supervisor.surfaces.service import Service
from tests.runtime.fleet_support import Build


@asynccontextmanager
async def controlled(build: Build, path: Path) -> AsyncGenerator[Control]:
    """A control socket there, and a fleet behind it."""
    async with build.up() as fleet:
        bus, loaded = Bus(), build.load()
        service = Service(
            fleet=fleet,
            bus=bus,
            reloader=Reloader(fleet, loaded, lambda _: loaded, bus),
            memory=Memory(None),
            socket=str(path),
            pid=0,
            started_at=0.0,
            shut_down=lambda: None,
        )
        control = Control(service, loaded.settings.limits)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            async with control.serving(listener):
                yield control
