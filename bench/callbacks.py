"""What the two thin contenders share: load by callbacks over a channel."""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import msgspec

from bench.channel import Channel, request_tail, sender
from bench.load import ECHO, ECHO_ARGUMENTS, CallFailed, Send, at_once, in_turn


class CallbackContender(ABC):
    """Calls on channels; a subclass says on which, and under which names."""

    @abstractmethod
    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> tuple[Channel, dict[str, Any]]:
        """The channel to that server, and the params of the call."""

    @abstractmethod
    def listing(self) -> tuple[Channel, dict[str, Any]]:
        """The channel that lists all tools, and the params for it."""

    async def in_turn(self, tool: str, arguments: Mapping[str, Any], times: int) -> list[int]:
        return await in_turn(self._sender(0, tool, arguments), times)

    async def at_once(self, servers: int, in_flight: int, times: int) -> tuple[int, int]:
        return await at_once(
            [self._sender(n, ECHO, ECHO_ARGUMENTS) for n in range(servers)], in_flight, times
        )

    async def listings(self, times: int) -> list[int]:
        channel, params = self.listing()
        return await in_turn(sender(channel, request_tail("tools/list", params)), times)

    async def text(self, server: int, tool: str) -> str:
        channel, params = self.call(server, tool, {})
        result = msgspec.json.decode(await channel.ask("tools/call", params))
        return str(result["content"][0]["text"])

    async def death(self, server: int, pid: int) -> int:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_end(error: object) -> None:
            now = perf_counter_ns()
            if error is None:
                ended.set_exception(CallFailed("a call that hangs was answered"))
            else:
                ended.set_result(now)

        self._sender(server, "hang", {})(on_end)
        await self.text(server, "pid")  # answered, so the call before it has reached the server
        began = perf_counter_ns()
        os.kill(pid, signal.SIGKILL)
        return await ended - began

    def _sender(self, server: int, tool: str, arguments: Mapping[str, Any]) -> Send:
        channel, params = self.call(server, tool, arguments)
        return sender(channel, request_tail("tools/call", params))
