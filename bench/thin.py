"""Our daemon through its socket, by a client that is as thin as `bare`."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from bench.callbacks import CallbackContender
from bench.channel import Channel, request_tail, sender
from bench.contender import Fleet
from bench.load import PAUSE, in_turn
from bench.plain import noticed


class _Listing(msgspec.Struct):
    tools: list[msgspec.Raw]
    generation: int


_listing = msgspec.json.Decoder(_Listing)


class Thin(CallbackContender):
    """One connection to the daemon, which has the servers."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._channel = Channel()
        self._generation = 0

    async def open(self) -> None:
        """Connect as soon as the daemon listens, and wait until it lists every tool."""
        transport = await self._connect()
        self._channel.write = cast("asyncio.Transport", transport).write
        expected = self._fleet.servers * self._fleet.tools
        while True:
            listing = _listing.decode(await self._channel.ask("tools/list", {}))
            if len(listing.tools) == expected:
                self._generation = listing.generation
                return
            await asyncio.sleep(PAUSE)

    async def _connect(self) -> asyncio.BaseTransport:
        while True:
            try:
                loop = asyncio.get_running_loop()
                transport, _ = await loop.create_unix_connection(lambda: self._channel, self._fleet.socket)
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(PAUSE)
            else:
                return transport

    async def close(self) -> None:
        """Nothing: the daemon is ended by whoever started it."""

    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> tuple[Channel, dict[str, Any]]:
        return self._channel, {"name": f"s{server}_{tool}", "arguments": arguments}

    def listing(self) -> tuple[Channel, dict[str, Any]]:
        return self._channel, {}

    async def differences(self, times: int) -> list[int]:
        """Nanoseconds that each listing took that asks only for what is new, when nothing is."""
        tail = request_tail("tools/list", {"since": self._generation})
        return await in_turn(sender(self._channel, tail), times)

    async def noticed(self, server: int, pid: int) -> int:
        return noticed(self._fleet.socket, f"s{server}", pid)
