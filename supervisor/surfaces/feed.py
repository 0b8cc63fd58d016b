"""News for one client that may read more slowly than they come.

A feed hands lines to the connection while it takes them, keeps a bounded number otherwise, and forgets the
oldest. The client is told how many it missed.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from supervisor.core.jsonrpc import notification_line

KEPT = 1000


class Feed:
    """Notifications of one method for one client."""

    def __init__(self, method: str, send: Callable[[bytes], None], has_room: Callable[[], bool]) -> None:
        self._method, self._send, self._has_room = method, send, has_room
        self._waiting: deque[bytes] = deque()
        self._missed = 0

    @property
    def behind(self) -> bool:
        return bool(self._waiting)

    def offer(self, params: bytes) -> None:
        """Send the news, now or when the client has read what is before them."""
        if len(self._waiting) == KEPT:
            self._waiting.popleft()
            self._missed += 1
        self._waiting.append(params)
        self.drain()

    def drain(self) -> None:
        """Send as much as the client takes."""
        while self._waiting and self._has_room():
            if self._missed:
                missed, self._missed = self._missed, 0
                lost = msgspec.json.encode({"kind": "lost", "count": missed})
                self._send(notification_line(self._method, lost))
            self._send(notification_line(self._method, self._waiting.popleft()))
