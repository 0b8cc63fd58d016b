"""Tasks beside something else, for as long as that lasts.

A task that is cancelled with its group ends with an exception that holds every frame of it, and in a circle,
so all that a run had would stay until the collector comes. Here each has a scope of its own, which takes the
cancellation, so that it ends like any other.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio


@contextlib.asynccontextmanager
async def beside(*works: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Have these at work until the block is left, or cancelled; what one of them raises ends the block."""
    # Shielded from everything but us: who is cancelled by two scopes at once ends by the outer one.
    scopes = [anyio.CancelScope(shield=True) for _ in works]
    async with anyio.create_task_group() as tasks:
        for scope, work in zip(scopes, works, strict=True):
            tasks.start_soon(_within, scope, work)
        try:
            yield
        finally:
            for scope in scopes:
                scope.cancel()


async def _within(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()
