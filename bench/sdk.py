"""The official SDK's `Client` over stdio, used as its documentation says; it holds the servers itself.

Runs in an environment of its own (see `bench.environment`), so `mcp` is loaded by name and has no types here.
"""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from bench.awaited import AwaitedContender
from bench.contender import Fleet
from bench.load import CallFailed, in_turn_awaited

mcp: Any = import_module("mcp")


class Sdk(AwaitedContender):
    """One `Client` for each server, each held by a task of its own, as its cancel scopes need it."""

    lost = mcp.MCPError

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._clients: list[Any] = []
        self._closing = asyncio.Event()
        self._holders: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        opened = [loop.create_future() for _ in range(self._fleet.servers)]
        self._holders = [loop.create_task(self._hold(each)) for each in opened]
        self._clients = await asyncio.gather(*opened)

    async def _hold(self, opened: asyncio.Future[Any]) -> None:
        command, *arguments = self._fleet.command
        async with mcp.Client(mcp.StdioServerParameters(command=command, args=arguments)) as client:
            await client.list_tools()
            opened.set_result(client)
            await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        await asyncio.gather(*self._holders)

    async def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> str:
        result = await self._clients[server].call_tool(tool, arguments)
        if result.is_error:
            raise CallFailed(str(result))
        return str(result.content[0].text)

    async def listings(self, times: int) -> list[int]:
        return await in_turn_awaited(self._clients[0].list_tools, times)
