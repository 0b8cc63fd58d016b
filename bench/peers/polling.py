"""Waiting for what no peer tells us, so it is asked: that its servers are up, and that one is gone."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter_ns
from typing import TypeVar

from bench.load import PAUSE, CallFailed

_PAUSE = 0.001
_LONGEST = 10_000_000_000
"""Nanoseconds after which a status that still says so is not going to change."""

Place = TypeVar("Place")


async def once_ready(ready: Callable[[Place], Awaitable[bool]], places: Iterable[Place]) -> None:
    """Wait until all places are ready.

    They are asked side by side whenever the first one has become ready that was not, and until then only that
    one is: to ask all of them again and again would take the processors from the servers that start.
    """
    missing = list(places)
    while missing:
        while not await ready(missing[0]):  # noqa: ASYNC110 - none tells us
            await asyncio.sleep(PAUSE)
        others = missing[1:]
        found = await asyncio.gather(*map(ready, others))
        missing = [place for place, is_ready in zip(others, found, strict=True) if not is_ready]


async def noticed(connected: Callable[[], Awaitable[bool]], pid: int) -> int:
    """Nanoseconds from the SIGKILL of a server until it is no longer said to be connected.

    Raises:
        CallFailed: it was not said before, or is still said.
    """
    if not await connected():
        raise CallFailed("a server that answers is not said to be connected")
    began = perf_counter_ns()
    os.kill(pid, signal.SIGKILL)
    while await connected():
        if perf_counter_ns() > began + _LONGEST:
            raise CallFailed("a server that was killed is still said to be connected")
        await asyncio.sleep(_PAUSE)
    return perf_counter_ns() - began
