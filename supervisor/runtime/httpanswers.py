"""Answers to what a server asks of us over HTTP: a few at a time, and no more than fit.

Each answer is a request of its own, so a server that asks without end would have us hold a connection and a
task for each question. A few are under way at once, more wait for their turn within bounds, and what comes
beyond is not answered: whoever asks so much does not wait for each.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

from supervisor.runtime.beside import Company

logger = logging.getLogger(__name__)

AT_ONCE = 16
_WAITING = 256
_BYTES = 256 * 1024
"""Of answers that wait for their turn."""


class Answers:
    """The answers of one wire that the server does not have yet."""

    def __init__(self, post: Callable[[bytes], Awaitable[None]]) -> None:
        self._post = post
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._under_way = 0

    def add(self, line: bytes, tasks: Company) -> None:
        """Send an answer when its turn comes, unless too many wait already; `post` must not raise."""
        if self._under_way < AT_ONCE:
            self._under_way += 1
            tasks.start_soon(self._send, line)
        elif len(self._waiting) < _WAITING and self._bytes + len(line) <= _BYTES:
            self._waiting.append(line)
            self._bytes += len(line)
        else:
            logger.debug("not answering a server that asks faster than it takes answers")

    async def _send(self, line: bytes) -> None:
        """Send this answer, and then those that wait."""
        try:
            await self._post(line)
            while self._waiting:
                line = self._waiting.popleft()
                self._bytes -= len(line)
                await self._post(line)
        finally:
            self._under_way -= 1
