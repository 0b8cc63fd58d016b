"""Our daemon through its socket, by the client that Python users get: `supervisor.client`."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from bench.awaited import AwaitedContender
from bench.contender import Fleet
from bench.load import PAUSE, in_turn_awaited
from supervisor.client import Client
from supervisor.errors import DaemonUnreachable, SupervisorError


class Library(AwaitedContender):
    """One `Client` for all servers, held by a task of its own."""

    lost = SupervisorError

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holder: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Connect as soon as the daemon listens, and wait until it lists every tool."""
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.get_running_loop().create_task(self._hold(opened))
        self._client = await opened

    async def _hold(self, opened: "asyncio.Future[Client]") -> None:
        async with AsyncExitStack() as stack:
            client = await self._connected(stack)
            await self._listed(client)
            opened.set_result(client)
            await self._closing.wait()

    async def _connected(self, stack: AsyncExitStack) -> Client:
        while True:
            try:
                return await stack.enter_async_context(Client(self._fleet.socket))
            except DaemonUnreachable:
                await asyncio.sleep(PAUSE)

    async def _listed(self, client: Client) -> None:
        """List tools at every piece of news until all are there."""
        expected = self._fleet.servers * self._fleet.tools
        async with client.events(["catalog"]) as news:
            while len(await client.tools()) != expected:
                await anext(news)

    async def close(self) -> None:
        self._closing.set()
        if self._holder is not None:
            await self._holder

    async def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> str:
        assert self._client is not None
        result = await self._client.call(f"s{server}_{tool}", arguments)
        return str(result["content"][0]["text"])

    async def listings(self, times: int) -> list[int]:
        assert self._client is not None
        return await in_turn_awaited(self._client.tools, times)
