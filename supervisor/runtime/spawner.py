"""Starts children in a thread of its own, so that no start holds up the loop and whoever it serves.

The thread lives as long as there may be children: the signal that has a child die with us is sent when the
thread ends that started it. A start is never given up halfway, as the child may be there already.

A child can be begun before there is a loop, while the rest of the daemon is still being loaded. Its run takes
it when it asks for the same command. One that no run wants is dropped.
"""

import contextlib
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import anyio

from supervisor.runtime import proctable
from supervisor.runtime.census import Census
from supervisor.runtime.orphans import TOKEN_NAME, Token
from supervisor.runtime.process import CannotStart, Child, Command, Pipes, spawn

Born = tuple[Child, Pipes]


class Spawner:
    """One start after the other, in the order of asking."""

    def __init__(self, find_prefix: Callable[[], Sequence[str]] = tuple) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
        self._find_prefix = find_prefix
        self._prefix: Sequence[str] | None = None
        """What goes before each command, once the first was to be started."""
        self._begun: dict[str, Future[Born]] = {}
        """Children that no run has taken yet, by their tokens."""

    def begin(self, command: Command, census: Census) -> None:
        """Start a command that has a token, for the run that is going to have it."""
        self._begun[command.env[TOKEN_NAME]] = self._submit(command, census)

    async def start(self, command: Command, census: Census) -> Born:
        """Start the command, or take the child that was begun with its token; raises as `spawn`."""
        begun = self._begun.pop(command.env.get(TOKEN_NAME, ""), None)
        return await _outcome(begun or self._submit(command, census))

    async def drop(self, token: Token, census: Census) -> None:
        """End what was begun for a run that does not want it any more."""
        if (begun := self._begun.pop(str(token), None)) is None:
            return
        with contextlib.suppress(CannotStart, OSError):
            child, pipes = await _outcome(begun)
            pipes.close()
            child.signal(signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await child.emptied()
            child.reap()
            del census.leaders[child.pid]

    def abandon(self) -> None:
        """Kill all that no run has taken, without waiting for its end; for our own."""
        while self._begun:
            _, begun = self._begun.popitem()
            with contextlib.suppress(CannotStart, OSError):
                child, pipes = begun.result()
                pipes.close()
                child.signal(signal.SIGKILL)
                child.reap()

    def _submit(self, command: Command, census: Census) -> Future[Born]:
        return self._thread.submit(self._spawn, command, census)

    def _spawn(self, command: Command, census: Census) -> Born:
        if self._prefix is None:
            self._prefix = self._find_prefix()
        # What starts meanwhile may be the new leader, or its own.
        since = proctable.clock()
        census.expected.append(since)
        try:
            child, pipes = spawn(command, prefix=self._prefix, census=census)
            census.leaders[child.pid] = child.began
        finally:
            census.expected.remove(since)
        return child, pipes


async def _outcome(begun: Future[Born]) -> Born:
    # Needs the loop, which is not loaded yet when the first children are begun.
    import asyncio

    with anyio.CancelScope(shield=True):
        return await asyncio.wrap_future(begun)
    raise AssertionError("unreachable")  # pragma: no cover - nobody cancels the scope
