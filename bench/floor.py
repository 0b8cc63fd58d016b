"""The floor: an asyncio program that holds the servers' pipes itself, as one writes it in an hour.

It uses what asyncio has for this, subprocesses and streams, and keeps nothing between a call and its answer.
`bench.bare` does without the streams.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import msgspec

from bench.channel import LOST, Answer, read_answer, request_tail
from bench.contender import INITIALIZE, Fleet
from bench.line import good
from bench.load import ECHO, ECHO_ARGUMENTS, FLOOD, LONGEST, CallFailed, in_turn_awaited

_LONGEST_LINE = 16 * 1024 * 1024
_LIST = request_tail("tools/list", {})


class Child:
    """One server, started by us. Whoever sends also reads."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._last_id = 0

    async def greet(self) -> None:
        """Open the session and list the tools."""
        await self.ask(request_tail("initialize", INITIALIZE))
        self._input.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        await self.ask(_LIST)

    async def send(self, tail: bytes) -> None:
        self._last_id += 1
        self._input.write(b'{"jsonrpc":"2.0","id":%d%b' % (self._last_id, tail))
        await self._input.drain()

    async def answer(self) -> Answer:
        """The next answer.

        Raises:
            CallFailed: it is an error, or the server is gone.
        """
        line = await self._output.readline()
        if not line:
            raise CallFailed(LOST)
        return good(read_answer(line))

    async def ask(self, tail: bytes) -> Answer:
        """One request and its answer, while no other is outstanding."""
        await self.send(tail)
        return await self.answer()

    def end(self) -> None:
        """Ask it to end: close its input, and SIGTERM."""
        self._input.close()
        self._process.terminate()

    async def gone(self, grace: float) -> None:
        """Wait until it has ended, with SIGKILL after `grace` seconds."""
        try:
            await asyncio.wait_for(self._process.wait(), grace)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class Floor:
    """Children of our own, started side by side."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._children: list[Child] = []

    async def open(self) -> None:
        self._children = await asyncio.gather(*(self._started() for _ in range(self._fleet.servers)))

    async def _started(self) -> Child:
        command = self._fleet.command
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE)
        child = Child(process)
        await child.greet()
        return child

    async def close(self) -> None:
        for child in self._children:
            child.end()
        await asyncio.gather(*(child.gone(self._fleet.stop_grace) for child in self._children))

    async def in_turn(
        self, tool: str, arguments: Mapping[str, Any], times: int, longest: int = LONGEST
    ) -> list[int]:
        return await self._asked(_call(tool, arguments), times, longest)

    async def listings(self, times: int) -> list[int]:
        return await self._asked(_LIST, times)

    async def _asked(self, tail: bytes, times: int, longest: int = LONGEST) -> list[int]:
        child = self._children[0]
        return await in_turn_awaited(lambda: child.ask(tail), times, longest)

    async def at_once(self, servers: int, in_flight: int, times: int) -> tuple[int, int]:
        began = perf_counter_ns()
        shares = (
            _flood(child, in_flight // servers, times // servers, began + FLOOD)
            for child in self._children[:servers]
        )
        return sum(await asyncio.gather(*shares)), perf_counter_ns() - began

    async def text(self, server: int, tool: str) -> str:
        answer = await self._children[server].ask(_call(tool, {}))
        return str(msgspec.json.decode(answer.result)["content"][0]["text"])

    async def death(self, server: int, pid: int) -> int:
        child = self._children[server]
        await child.send(_call("hang", {}))
        await self.text(server, "pid")  # answered, so the call before it has reached the server
        began = perf_counter_ns()
        os.kill(pid, signal.SIGKILL)
        try:
            await child.answer()
        except CallFailed:
            return perf_counter_ns() - began
        raise CallFailed("a call that hangs was answered")


async def _flood(child: Child, in_flight: int, times: int, deadline: int) -> int:
    """Keep so many calls outstanding at one server; returns how many were made."""
    tail = _call(ECHO, ECHO_ARGUMENTS)
    for _ in range(in_flight):
        await child.send(tail)
    sent, made = in_flight, 0
    while made < sent:
        await child.answer()
        made += 1
        if sent < times and perf_counter_ns() < deadline:
            await child.send(tail)
            sent += 1
    return made


def _call(tool: str, arguments: Mapping[str, Any]) -> bytes:
    return request_tail("tools/call", {"name": tool, "arguments": arguments})
