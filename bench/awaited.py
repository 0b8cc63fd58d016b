"""What contenders with an awaited API share: load by tasks."""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any, ClassVar

from bench.load import ECHO, ECHO_ARGUMENTS, LONGEST, Call, CallFailed, at_once_awaited, in_turn_awaited


class AwaitedContender(ABC):
    """Calls that are awaited; a subclass says how one is made."""

    lost: ClassVar[type[Exception]]
    """What a call raises whose server is gone."""

    @abstractmethod
    async def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> str:
        """The text that the tool answers.

        Raises:
            CallFailed: it answered with an error.
        """

    async def in_turn(
        self, tool: str, arguments: Mapping[str, Any], times: int, longest: int = LONGEST
    ) -> list[int]:
        return await in_turn_awaited(self._caller(0, tool, arguments), times, longest)

    async def at_once(self, servers: int, in_flight: int, times: int) -> tuple[int, int]:
        calls = [self._caller(server, ECHO, ECHO_ARGUMENTS) for server in range(servers)]
        return await at_once_awaited(calls, in_flight, times)

    async def text(self, server: int, tool: str) -> str:
        return await self.call(server, tool, {})

    async def death(self, server: int, pid: int) -> int:
        hanging = asyncio.get_running_loop().create_task(self.text(server, "hang"))
        await self.text(server, "pid")  # answered, so the call before it has reached the server
        began = perf_counter_ns()
        os.kill(pid, signal.SIGKILL)
        try:
            await hanging
        except self.lost:
            return perf_counter_ns() - began
        raise CallFailed("a call that hangs was answered")

    def _caller(self, server: int, tool: str, arguments: Mapping[str, Any]) -> Call:
        async def call() -> None:
            await self.call(server, tool, arguments)

        return call
