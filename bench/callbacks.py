"""What contenders driven by callbacks share: a subclass says how a call is sent."""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import msgspec

from bench.channel import Channel, request_tail, sender
from bench.load import ECHO, ECHO_ARGUMENTS, LONGEST, CallFailed, Send, at_once, in_turn

_LAST_WORD = 10.0
"""Seconds within which a caller must hear that its server was killed."""


class SendingContender(ABC):
    """Calls that are sent with a callback for their end."""

    @abstractmethod
    def sender(self, server: int, tool: str, arguments: Mapping[str, Any]) -> Send:
        """A way to make that call again and again."""

    @abstractmethod
    def lister(self) -> Send:
        """A way to list all tools again and again."""

    @abstractmethod
    async def text(self, server: int, tool: str) -> str:
        """What a tool without arguments says."""

    async def in_turn(
        self, tool: str, arguments: Mapping[str, Any], times: int, longest: int = LONGEST
    ) -> list[int]:
        return await in_turn(self.sender(0, tool, arguments), times, longest)

    async def at_once(self, servers: int, in_flight: int, times: int) -> tuple[int, int]:
        return await at_once([self.sender(n, ECHO, ECHO_ARGUMENTS) for n in range(servers)], in_flight, times)

    async def listings(self, times: int) -> list[int]:
        return await in_turn(self.lister(), times)

    async def death(self, server: int, pid: int) -> int:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_end(error: object) -> None:
            now = perf_counter_ns()
            if error is None:
                ended.set_exception(CallFailed("a call that hangs was answered"))
            else:
                ended.set_result(now)

        self.sender(server, "hang", {})(on_end)
        await self.text(server, "pid")  # answered, so the call before it has reached the server
        began = perf_counter_ns()
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(_LAST_WORD):
            return await ended - began


class CallbackContender(SendingContender):
    """Calls on channels; a subclass says on which, and under which names."""

    @abstractmethod
    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> tuple[Channel, dict[str, Any]]:
        """The channel to that server, and the params of the call."""

    @abstractmethod
    def listing(self) -> tuple[Channel, dict[str, Any]]:
        """The channel that lists all tools, and the params for it."""

    def sender(self, server: int, tool: str, arguments: Mapping[str, Any]) -> Send:
        channel, params = self.call(server, tool, arguments)
        return sender(channel, request_tail("tools/call", params))

    def lister(self) -> Send:
        channel, params = self.listing()
        return sender(channel, request_tail("tools/list", params))

    async def text(self, server: int, tool: str) -> str:
        channel, params = self.call(server, tool, {})
        result = msgspec.json.decode(await channel.ask("tools/call", params))
        return str(result["content"][0]["text"])
