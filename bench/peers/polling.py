"""How long a peer goes on saying that a killed server is connected: none tells us, so it is asked."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from time import perf_counter_ns

from bench.load import CallFailed

_PAUSE = 0.001
_LONGEST = 10_000_000_000
"""Nanoseconds after which a status that still says so is not going to change."""


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
