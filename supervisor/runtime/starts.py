"""How many servers may be in the first moments of their start at once.

Hundreds of servers that are started together would all be slow. So only some start at a time, and the next
begins when one of them answers or ends. A slow one holds its place for a second at most.
"""

import anyio

MOST = 64
HOLD = 1.0
"""Seconds after which a server that is still starting makes room for the next."""


class Turn:
    """The right to start one server, until it is given back."""

    def __init__(self, free: anyio.Semaphore, hold: float) -> None:
        self._free, self._hold = free, hold
        self._over = False

    def release(self) -> None:
        """Let the next one start; once is enough."""
        if not self._over:
            self._over = True
            self._free.release()

    async def expire(self) -> None:
        """Give it back when it has been held for long enough."""
        await anyio.sleep(self._hold)
        self.release()


class Starts:
    """Hands out turns, in the order of asking."""

    def __init__(self, most: int = MOST, hold: float = HOLD) -> None:
        self._free, self._hold = anyio.Semaphore(most), hold

    async def turn(self) -> Turn:
        """Wait for a turn."""
        await self._free.acquire()
        return Turn(self._free, self._hold)
