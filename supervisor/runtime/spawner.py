"""Starts children in a thread of its own, so that no start holds up the loop and whoever it serves.

The thread lives as long as there may be children: the signal that has a child die with us is sent when the
thread ends that started it. A start is never given up halfway, as the child may be there already.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import anyio

from supervisor.runtime.census import Census
from supervisor.runtime.process import Child, Command, Pipes, spawn


class Spawner:
    """One start after the other, in the order of asking."""

    def __init__(self, find_prefix: Callable[[], Sequence[str]] = tuple) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
        self._find_prefix = find_prefix
        self._prefix: Future[Sequence[str]] | None = None
        """What goes before each command, once somebody wanted to know."""

    def prepare(self) -> Future[Sequence[str]]:
        """Find out, beside all else, what the first start needs to know."""
        if self._prefix is None:
            self._prefix = self._thread.submit(self._find_prefix)
        return self._prefix

    async def start(self, command: Command, census: Census) -> tuple[Child, Pipes]:
        """Start the command; raises as `spawn`."""
        prefix = self.prepare()  # has its turn before us in the same thread
        with anyio.CancelScope(shield=True):
            return await asyncio.wrap_future(
                self._thread.submit(lambda: spawn(command, prefix=prefix.result(), census=census))
            )
        raise AssertionError("unreachable")  # pragma: no cover - nobody cancels the scope
