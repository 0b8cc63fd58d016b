"""The control socket: who is connected to it, from the first connection to the last answer.

What one client asks, and what it may use up, is in `connection`. This is one of the few modules that know
the loop is asyncio's.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable

import anyio
from msgspec import Struct, field

from supervisor.core.spec import LimitSettings
from supervisor.surfaces.connection import Client
from supervisor.surfaces.endpoint import may_connect
from supervisor.surfaces.farewell import Farewell
from supervisor.surfaces.service import Service

_LAST_ANSWERS = 0.5
"""Seconds that clients have for reading what was written to them when all ends."""


class Control(Struct):
    """Everybody who is connected."""

    service: Service
    limits: LimitSettings
    admits: Callable[[int], bool] = may_connect
    """Which users may connect."""
    clients: set[Client] = field(default_factory=set[Client])
    leaving: set[Farewell] = field(default_factory=set[Farewell])
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncGenerator[None]:
        """Answer at `listener` until the block is left; then hang up, and give everybody time to read."""
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: Client(self), sock=listener)
        try:
            yield
        finally:
            server.close()
            for client in list(self.clients):
                client.hang_up()
            for farewell in list(self.leaving):
                farewell.close()
            with anyio.move_on_after(_LAST_ANSWERS, shield=True):
                while self.clients:
                    self._left = asyncio.Event()
                    await self._left.wait()

    def left(self, client: Client) -> None:
        """Called when a connection has ended."""
        self.clients.discard(client)
        self._left.set()
