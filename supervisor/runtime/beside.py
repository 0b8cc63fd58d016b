"""Tasks beside something else, for as long as that lasts.

A task that is cancelled with its group ends with an exception that holds every frame of it, and in a circle,
so all that a run had would stay until the collector comes. Here each has a scope of its own, which takes the
cancellation, so that it ends like any other.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVarTuple

import anyio
from anyio.abc import TaskGroup

Arguments = TypeVarTuple("Arguments")


class Company:
    """Tasks that come and go, of which none outlasts the block they belong to."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._scopes: set[anyio.CancelScope] = set()
        self._over = False

    def start_soon(self, work: Callable[[*Arguments], Awaitable[None]], *arguments: *Arguments) -> None:
        # Shielded from everything but us: who is cancelled by two scopes at once ends by the outer one.
        scope = anyio.CancelScope(shield=True)
        self._scopes.add(scope)
        if self._over:
            scope.cancel()
        self._tasks.start_soon(self._within, scope, work, *arguments)

    async def _within(
        self,
        scope: anyio.CancelScope,
        work: Callable[[*Arguments], Awaitable[None]],
        *arguments: *Arguments,
    ) -> None:
        try:
            with scope:
                await work(*arguments)
        finally:
            self._scopes.discard(scope)

    def cancel(self) -> None:
        """End them all, and whatever they still start."""
        self._over = True
        for scope in self._scopes:
            scope.cancel()


@contextlib.asynccontextmanager
async def company() -> AsyncGenerator[Company]:
    """Have tasks started until the block is left, or cancelled; what one of them raises ends the block."""
    async with anyio.create_task_group() as tasks:
        started = Company(tasks)
        try:
            yield started
        finally:
            started.cancel()


@contextlib.asynccontextmanager
async def beside(*works: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Have these at work until the block is left, or cancelled; what one of them raises ends the block."""
    async with company() as started:
        for work in works:
            started.start_soon(work)
        yield
