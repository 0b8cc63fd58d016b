"""Two ways to put load on servers, and the clock for both.

A contender built on callbacks is driven by callbacks, so that it pays for no task and no future per
call; one whose API is awaited is driven by tasks, as its users drive it. Times are nanoseconds. A load makes
as many calls as it is told, or as many as it can within `LONGEST` or what it is told instead, or `FLOOD` when
many are under way.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter_ns

LONGEST = 2_000_000_000
"""Nanoseconds after which a load makes no further call: a busy machine costs precision, not time."""
FLOOD = 500_000_000
"""The same where many calls are under way: all contenders, quick or slow, have about as many rounds."""
PAUSE = 0.005
"""Seconds between two tries on a gateway that is not up yet: the same before ours and before peers."""
CHUNK = 1 << 16
"""Bytes read at a time: memory for four times as many comes from the kernel and goes back at every read."""
ECHO = "echo"
ECHO_ARGUMENTS = {"text": "hello"}

Done = Callable[[object], None]
"""Told the error of a call, or None when it went well."""
Send = Callable[[Done], None]
"""Makes one call."""
Call = Callable[[], Awaitable[object]]
"""Makes one call and waits for its answer."""


class CallFailed(Exception):
    """A call of the load ended with an error, so the figure would be a lie."""


class _InTurn:
    """One call after the other, the next one sent from the callback of the last."""

    def __init__(self, send: Send, times: int, longest: int) -> None:
        self._send, self._times = send, times
        self._taken: list[int] = []
        self._began = 0
        self._deadline = perf_counter_ns() + longest
        self.finished: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    def go_on(self) -> None:
        self._began = perf_counter_ns()
        self._send(self._done)

    def _done(self, error: object) -> None:
        now = perf_counter_ns()
        self._taken.append(now - self._began)
        if error is not None:
            self.finished.set_exception(CallFailed(str(error)))
        elif len(self._taken) == self._times or now > self._deadline:
            self.finished.set_result(self._taken)
        else:
            self.go_on()


async def in_turn(send: Send, times: int, longest: int = LONGEST) -> list[int]:
    """How long each of up to `times` calls took, one after the other, the last one begun within `longest`."""
    load = _InTurn(send, times, longest)
    load.go_on()
    return await load.finished


class _AtOnce:
    """A fixed number of calls in flight, spread evenly over the ways to send them."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._sent = self._ended = 0
        self._deadline = perf_counter_ns() + FLOOD
        self.finished: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def send(self, send: Send) -> None:
        self._sent += 1
        send(partial(self._done, send))

    def _done(self, send: Send, error: object) -> None:
        self._ended += 1
        if error is not None and not self.finished.done():
            self.finished.set_exception(CallFailed(str(error)))
        elif self._sent < self._times and perf_counter_ns() < self._deadline:
            self.send(send)
        elif self._ended == self._sent and not self.finished.done():
            self.finished.set_result(self._ended)


async def at_once(sends: list[Send], in_flight: int, times: int) -> tuple[int, int]:
    """How many calls were made, up to `times`, with `in_flight` under way; and how long that took."""
    load = _AtOnce(times)
    began = perf_counter_ns()
    for number in range(in_flight):
        load.send(sends[number % len(sends)])
    made = await load.finished
    return made, perf_counter_ns() - began


async def in_turn_awaited(call: Call, times: int, longest: int = LONGEST) -> list[int]:
    """As `in_turn`, for an API that is awaited."""
    taken: list[int] = []
    deadline = perf_counter_ns() + longest
    while len(taken) < times and (began := perf_counter_ns()) < deadline:
        await call()
        taken.append(perf_counter_ns() - began)
    return taken


async def at_once_awaited(calls: list[Call], in_flight: int, times: int) -> tuple[int, int]:
    """As `at_once`, with one task for each call in flight."""
    made = 0

    async def keep_calling(call: Call) -> None:
        nonlocal made
        while made < times and perf_counter_ns() < deadline:
            made += 1
            await call()

    began = perf_counter_ns()
    deadline = began + FLOOD
    async with asyncio.TaskGroup() as tasks:
        for number in range(in_flight):
            tasks.create_task(keep_calling(calls[number % len(calls)]))
    return made, perf_counter_ns() - began
