"""Our daemon through its socket, by the client that Python users get: `supervisor.client`."""

import asyncio
from collections.abc import Mapping
from typing import Any

from bench.awaited import AwaitedContender
from bench.contender import Fleet
from bench.thin import Thin
from supervisor.client import Client
from supervisor.errors import SupervisorError


class Library(AwaitedContender):
    """One `Client` for all servers, held by a task of its own."""

    lost = SupervisorError

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holder: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Connect when the daemon has listed everything, for which the thin client waits."""
        await Thin(self._fleet).open()
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.get_running_loop().create_task(self._hold(opened))
        self._client = await opened

    async def _hold(self, opened: "asyncio.Future[Client]") -> None:
        async with Client(self._fleet.socket) as client:
            opened.set_result(client)
            await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        if self._holder is not None:
            await self._holder

    async def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> str:
        assert self._client is not None
        result = await self._client.call(f"s{server}_{tool}", arguments)
        return str(result["content"][0]["text"])
