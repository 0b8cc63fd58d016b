"""A fleet that is reloaded, for tests: its file, its reloader, and everything that is said of reloads."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from supervisor.core.servers import Loaded
from supervisor.runtime.bus import Bus, News, ReloadEvent
from supervisor.runtime.configfile import load
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.reload import Reloader
from supervisor.runtime.stdio import Host
from tests.files import save
from tests.runtime.support import ENVIRON, PATIENCE, fake


def entry(*options: object, **keys: Any) -> dict[str, Any]:
    command, *arguments = fake(*options)
    return {"command": command, "args": arguments, "stopGrace": 0.3, **keys}


class Stage:
    """A fleet with its reloader, and everything that was said of reloads."""

    kind: type[Fleet] = Fleet

    def __init__(self, directory: Path, host: Host) -> None:
        self.path, self.reads = directory / "mcp.json", 0
        self.write({})
        self.events: list[ReloadEvent] = []
        bus = Bus()
        bus.subscribe(self._hear)
        loaded = self.load()
        self.fleet = self.kind(loaded, host, ENVIRON, bus)
        self.reloader = Reloader(self.fleet, loaded, self.load, bus)

    def write(self, servers: dict[str, Any], **settings: Any) -> None:
        """Save it whole: a thread may be reading the file."""
        save(self.path, json.dumps({"mcpServers": servers, "supervisor": settings}))

    def load(self, last: Loaded | None = None) -> Loaded:
        self.reads += 1
        return load([self.path], ENVIRON, last=last)

    def _hear(self, news: News) -> None:
        if isinstance(news, ReloadEvent):
            self.events.append(news)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self.fleet.running(), anyio.create_task_group() as tg:
            tg.start_soon(self.reloader.run)
            with anyio.fail_after(PATIENCE):
                yield
            tg.cancel_scope.cancel()
