"""Starts children in threads of their own, so that no start holds up the loop and whoever it serves.

The threads live as long as there may be children: the signal that has a child die with us is sent when the
thread ends that started it. A start that has begun is never given up halfway, as the child may be there
already; one that still waits for its turn is. A start can hang, as on a file system that does not answer, and
holds one thread up then.

A child can be begun before there is a loop, while the rest of the daemon is still being loaded. Its run takes
it when it asks for the same command.
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier

import anyio

from supervisor.errors import SupervisorError
from supervisor.runtime import proctable
from supervisor.runtime.census import Census
from supervisor.runtime.orphans import TOKEN_NAME, Token
from supervisor.runtime.process import Child, Command, Pipes, spawn

Born = tuple[Child, Pipes]

_THREADS = 4
"""Several, so that one start that hangs holds up no other; few, as they take turns with the loop."""


class GivenUp(Exception):
    """The child was not started, because nobody wanted it any more."""


class Spawner:
    """Starts a few at a time, in the order of asking.

    Raises:
        SupervisorError: there can be no further thread.
    """

    def __init__(self, find_prefix: Callable[[], Sequence[str]] = tuple) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="spawner")
        all_there = Barrier(_THREADS)
        try:
            for _ in range(_THREADS):  # made now: a start must not fail for want of one
                self._threads.submit(all_there.wait)
        except RuntimeError as exc:
            all_there.abort()
            advice = "allow this user or unit more processes (ulimit -u, TasksMax)"
            raise SupervisorError(f"cannot have threads that start servers: {exc}; {advice}") from exc
        self._find_prefix = find_prefix
        self._prefix: Future[Sequence[str]] | None = None
        """What goes before each command, from the first start on; found anew after a failure."""
        self._begun: dict[str, Future[Born]] = {}
        """Children that no run has taken yet, by their tokens."""
        self._asked: dict[str, Future[Born]] = {}
        """Those that a run waits for."""

    def begin(self, command: Command, census: Census) -> None:
        """Start a command that has a token, for the run that is going to have it."""
        self._begun[command.env[TOKEN_NAME]] = self._submit(command, census)

    def has_begun(self, token: Token) -> bool:
        """Whether there is a child that the run with this token has to take."""
        return str(token) in self._begun

    async def start(self, command: Command, census: Census) -> Born:
        """Start a command that has a token, or take the child that was begun with it; raises as `spawn`.

        Raises:
            GivenUp: `give_up` came first.
        """
        token = command.env[TOKEN_NAME]
        begun = token in self._begun
        self._asked[token] = asked = self._begun.pop(token) if begun else self._submit(command, census)
        try:
            return await _outcome(asked)
        finally:
            del self._asked[token]

    def give_up(self, token: Token) -> None:
        """Start nothing for the run with this token, if that has not begun."""
        for starts in (self._asked, self._begun):
            if (start := starts.get(str(token))) is not None:
                start.cancel()

    def abandon(self) -> None:
        """Kill all that no run has taken, without waiting for its end; for our own."""
        while self._begun:
            _, begun = self._begun.popitem()
            if not begun.cancel() and begun.exception() is None:
                child, pipes = begun.result()
                pipes.close()
                child.signal(signal.SIGKILL)
                child.reap()

    def _submit(self, command: Command, census: Census) -> Future[Born]:
        if self._prefix is None or (self._prefix.done() and self._prefix.exception() is not None):
            self._prefix = self._threads.submit(self._find_prefix)
        return self._threads.submit(_spawn, command, self._prefix, census)


def _spawn(command: Command, prefix: Future[Sequence[str]], census: Census) -> Born:
    found = prefix.result()
    # What starts meanwhile may be the new leader, or its own.
    since = proctable.clock()
    census.expected.append(since)
    try:
        child, pipes = spawn(command, prefix=found, census=census)
        census.leaders[child.pid] = child.began
    finally:
        census.expected.remove(since)
    return child, pipes


async def _outcome(begun: Future[Born]) -> Born:
    # Needs the loop, which is not loaded yet when the first children are begun.
    import asyncio

    with anyio.CancelScope(shield=True):
        try:
            return await asyncio.wrap_future(begun)
        except asyncio.CancelledError:
            if begun.cancelled():
                raise GivenUp from None
            raise
    raise AssertionError("unreachable")  # pragma: no cover - nobody cancels the scope
