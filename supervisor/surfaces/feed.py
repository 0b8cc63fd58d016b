"""News for one client that may read more slowly than they come.

A feed hands lines to the connection while it takes them, keeps a bounded number otherwise, and forgets the
oldest. The client is told how many it missed.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from supervisor.core.jsonrpc import notification_line

KEPT = 1000
PAUSE = 0.05
"""Seconds until what waits is tried again."""

Later = Callable[[float, Callable[[], None]], object]
"""Has something done after so many seconds."""


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


def _sent_to_nobody(_message: bytes) -> None:
    """Send to a client that has left."""


class Feeds:
    """All feeds of one client."""

    def __init__(self, send: Callable[[bytes], None], has_room: Callable[[], bool], later: Later) -> None:
        self._send, self._has_room, self._later = send, has_room, later
        self._count = 0
        self._closed = False

    def __len__(self) -> int:
        return self._count

    def add(self, method: str) -> Callable[[bytes], None]:
        """Where to put news of that method."""
        self._count += 1
        feed = Feed(method, self._send, self._has_room)

        def offer(params: bytes) -> None:
            was_behind = feed.behind
            feed.offer(params)
            if not was_behind:
                self._catch_up(feed)

        return offer

    def close(self) -> None:
        """Try no more: the client is gone, and held by us no longer."""
        self._closed = True
        self._send, self._has_room = _sent_to_nobody, bool

    def _catch_up(self, feed: Feed) -> None:
        """Try again and again to send what waits, while the client is there."""
        feed.drain()
        if feed.behind and not self._closed:
            self._later(PAUSE, lambda: self._catch_up(feed))
