"""Our daemon through its socket, by the thinnest client there is: a blocking socket and no event loop.

It sends a line and reads a line, as a script does; for throughput it keeps so many requests outstanding on
its one connection. Its methods are coroutines only because the worker awaits those of all contenders.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

import msgspec

from bench.calm import stolen
from bench.channel import request_tail
from bench.contender import Fleet
from bench.figures import NANO
from bench.line import Line, good
from bench.load import ECHO, ECHO_ARGUMENTS, FLOOD, LONGEST, PAUSE, CallFailed

CONNECTED = "connected"


class Plain:
    """One connection to the daemon, which has the servers."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._generation = 0

    async def open(self) -> None:
        """Connect as soon as the daemon listens, and list tools at every piece of news until all are there.

        To ask again and again would take the processors from the servers that start.
        """
        self._line, news = self._connected(), self._connected()
        news.ask(request_tail("events/subscribe", {"kinds": ["catalog"]}))
        expected = self._fleet.servers * self._fleet.tools
        while True:
            listing = msgspec.json.decode(self._line.ask(request_tail("tools/list", {})).result)
            if len(listing["tools"]) == expected:
                self._generation = listing["generation"]
                return
            news.answers()

    def _connected(self) -> Line:
        while True:
            try:
                return Line(self._fleet.socket)
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(PAUSE)

    async def close(self) -> None:
        """Nothing: the daemon is ended by whoever started it."""

    async def in_turn(
        self, tool: str, arguments: Mapping[str, Any], times: int, longest: int = LONGEST
    ) -> list[int]:
        return list(self._taken(_call(0, tool, arguments), times, longest))

    async def at_rate(
        self, tool: str, arguments: Mapping[str, Any], slices: int, calls: int, interval: int
    ) -> list[tuple[int, list[int]]]:
        """Nanoseconds that each call took that was due every `interval` of them, in slices of so many calls.

        With each slice is how much time was stolen from the machine since the one before it began; if that
        left calls late, since the last one that began in time.
        """
        tail, due, taken = _call(0, tool, arguments), perf_counter_ns(), list[tuple[int, list[int]]]()
        before = begun = stolen()
        for _ in range(slices):
            if perf_counter_ns() < due + interval:
                before, begun = begun, stolen()
            times = self._due_every(interval, due, tail, calls)
            due += calls * interval
            taken.append((stolen() - before, times))
        return taken

    def _due_every(self, interval: int, due: int, tail: bytes, calls: int) -> list[int]:
        """How long each of these calls took.

        A call that comes late because the one before it was late counts from when it was due; else a long
        wait would be seen by one call only, however many it would have held up.
        """
        ask, taken = self._line.ask, list[int]()
        for _ in range(calls):
            due += interval
            early = due - perf_counter_ns()
            if early > 0:
                time.sleep(early * NANO)
            began = perf_counter_ns() if early > 0 else due
            ask(tail)
            taken.append(perf_counter_ns() - began)
        return taken

    async def listings(self, times: int) -> list[int]:
        return list(self._taken(request_tail("tools/list", {}), times))

    async def differences(self, times: int) -> list[int]:
        """Nanoseconds that each listing took that asks only for what is new, when nothing is."""
        return list(self._taken(request_tail("tools/list", {"since": self._generation}), times))

    def _taken(self, tail: bytes, times: int, longest: int = LONGEST) -> Iterator[int]:
        """The nanoseconds of each of up to `times` requests, one after the other."""
        ask, deadline = self._line.ask, perf_counter_ns() + longest
        for _ in range(times):
            began = perf_counter_ns()
            ask(tail)
            now = perf_counter_ns()
            yield now - began
            if now > deadline:
                return

    async def at_once(self, servers: int, in_flight: int, times: int) -> tuple[int, int]:
        tails = [_call(server, ECHO, ECHO_ARGUMENTS) for server in range(servers)]
        began = perf_counter_ns()
        first = [tails[number % servers] for number in range(in_flight)]
        outstanding = dict(zip(self._line.send(*first), first, strict=True))
        made = 0
        while outstanding:
            answered = [outstanding.pop(good(answer).id or 0) for answer in self._line.answers()]
            made += len(answered)
            wanted = times - made - len(outstanding) if perf_counter_ns() < began + FLOOD else 0
            if again := answered[: max(wanted, 0)]:
                outstanding.update(zip(self._line.send(*again), again, strict=True))
        return made, perf_counter_ns() - began

    async def text(self, server: int, tool: str) -> str:
        answer = self._line.ask(_call(server, tool, {}))
        return str(msgspec.json.decode(answer.result)["content"][0]["text"])

    async def death(self, server: int, pid: int) -> int:
        self._line.send(_call(server, "hang", {}))
        await self.text(server, "pid")  # answered, so the call before it has reached the server
        began = perf_counter_ns()
        os.kill(pid, signal.SIGKILL)
        (answer,) = self._line.answers()
        now = perf_counter_ns()
        if not answer.error:
            raise CallFailed("a call that hangs was answered")
        return now - began

    async def noticed(self, server: int, pid: int) -> int:
        return noticed(self._fleet.socket, f"s{server}", pid)


def _call(server: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
    return request_tail("tools/call", {"name": f"s{server}_{tool}", "arguments": arguments})


def noticed(path: str, server: str, pid: int) -> int:
    """Nanoseconds from the SIGKILL of a server until `servers/get` no longer says that it is connected.

    It is asked at every piece of news, so that the daemon is left alone until then.

    Raises:
        CallFailed: it still says so when the news is over.
    """
    news, status = Line(path), Line(path)
    news.ask(request_tail("events/subscribe", {"kinds": ["transition"]}))
    began = perf_counter_ns()
    os.kill(pid, signal.SIGKILL)
    try:
        while _state(status, server) == CONNECTED:
            news.answers()
    except TimeoutError:
        raise CallFailed(f"{server} was killed and is still {CONNECTED}") from None
    return perf_counter_ns() - began


def _state(line: Line, server: str) -> str:
    answer = line.ask(request_tail("servers/get", {"server": server}))
    return str(msgspec.json.decode(answer.result)["state"])
