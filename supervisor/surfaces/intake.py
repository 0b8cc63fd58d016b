"""What one client has asked and is not served yet: in its order, and a little in each turn of the loop.

A client may send thousands of requests at once, as lines or as a batch. What takes longer than a moment is
left for the next turn, so everybody else is served in between. A client that does not read its answers is not
served until it does. Whoever fills this stops reading from the client while something waits here.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from supervisor.runtime.outlet import gathered

MOMENT = 0.002
"""Seconds that one client may take in one turn; a single request is not interrupted."""

Serve = Callable[[bytes], Iterator[object] | None]
"""Serves a line; a batch is served step by step by whoever iterates."""


class Handle(Protocol):
    def cancel(self) -> None: ...


def _served_by_nobody(_line: bytes) -> None:
    """Serve a line of a client that has left."""


def _done() -> None:
    """Do nothing more."""


class Intake:
    """The lines of one client."""

    __slots__ = ("_batch", "_call_soon", "_emptied", "_lines", "_next", "_serve", "held")

    def __init__(
        self, serve: Serve, emptied: Callable[[], None], call_soon: Callable[[Callable[[], None]], Handle]
    ) -> None:
        self._serve, self._emptied, self._call_soon = serve, emptied, call_soon
        self._lines: deque[bytes] = deque()
        self._batch: Iterator[object] | None = None
        self._next: Handle | None = None
        self.held = False
        """Whether the client has to read first."""

    @property
    def waiting(self) -> bool:
        return bool(self._lines) or self._batch is not None

    def take(self, lines: list[bytes]) -> None:
        """Serve these lines, after those that wait."""
        if len(lines) == 1 and not self.waiting:
            # Alone, its answer goes out at once.
            self._batch = self._serve(lines[0])
        else:
            self._lines.extend(lines)
        if self.waiting:
            self._work()

    def hold(self) -> None:
        """Serve no more, from the next request on."""
        self.held = True

    def release(self) -> None:
        """Go on."""
        self.held = False
        self._later()

    def close(self) -> None:
        """Forget what waits, and whom it was for: they hold us."""
        self._lines.clear()
        self._batch = None
        self._serve, self._emptied = _served_by_nobody, _done
        if self._next is not None:
            self._next.cancel()

    def _later(self) -> None:
        if self._next is None:
            self._next = self._call_soon(self._turn)

    def _turn(self) -> None:
        self._next = None
        self._work()
        if not self.waiting and not self.held:
            self._emptied()

    def _work(self) -> None:
        end, lines = time.monotonic() + MOMENT, self._lines
        with gathered():
            while not self.held:
                if self._batch is not None:
                    if next(self._batch, self) is self:
                        self._batch = None
                elif lines:
                    self._batch = self._serve(lines.popleft())
                else:
                    return
                if time.monotonic() > end:
                    self._later()
                    return
