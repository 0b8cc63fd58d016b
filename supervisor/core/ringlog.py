"""The last lines that a server wrote, with their times, within fixed bounds.

A ring takes chunks of bytes as they come from a pipe, cuts them into lines and forgets the oldest. It
never blocks and never grows: a line that does not end is cut, a flood pushes itself out.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    text: str


class RingLog:
    """At most `max_lines` lines and `max_bytes` bytes of what was written last."""

    def __init__(
        self,
        *,
        redact: Callable[[str], str] = str,
        max_lines: int = 500,
        max_bytes: int = 256 * 1024,
        max_line: int = 8 * 1024,
    ) -> None:
        self._redact = redact
        self._max_lines, self._max_bytes, self._max_line = max_lines, max_bytes, max_line
        self._lines: deque[Line] = deque()
        self._kept = 0
        self._open = b""
        self.total_bytes = 0
        """All that was ever fed, kept or not."""

    def feed(self, chunk: bytes, *, now: float) -> list[Line]:
        """Take a chunk; the lines it completed, oldest first, at most as many as the ring can hold."""
        self.total_bytes += len(chunk)
        tail = chunk[-self._max_bytes :]
        *whole, self._open = (self._open + tail).split(b"\n")
        if len(self._open) > self._max_line:
            whole.append(self._open)
            self._open = b""
        added = [self._line(raw, now) for raw in whole[-self._max_lines :]]
        for line in added:
            self._keep(line)
        return added

    def flush(self, *, now: float) -> None:
        """Keep what was written without a newline at its end; nothing more will come."""
        if self._open:
            self._keep(self._line(self._open, now))
            self._open = b""

    def add(self, text: str, *, now: float) -> None:
        """Keep a line of our own."""
        self._keep(Line(now, text))

    def tail(self, count: int) -> tuple[Line, ...]:
        """The last `count` lines, oldest first."""
        return tuple(self._lines)[-count:] if count > 0 else ()

    def _line(self, raw: bytes, now: float) -> Line:
        text = raw[: self._max_line].decode("utf-8", "replace").rstrip("\r")
        if len(raw) > self._max_line:
            text += f" [{len(raw) - self._max_line} bytes cut]"
        return Line(now, self._redact(text))

    def _keep(self, line: Line) -> None:
        self._lines.append(line)
        self._kept += len(line.text)
        while len(self._lines) > self._max_lines or self._kept > self._max_bytes:
            self._kept -= len(self._lines.popleft().text)


class Redactor:
    """Replaces the secrets of one server wherever they stand in a text."""

    def __init__(self, secrets: frozenset[str], *, shortest: int = 6) -> None:
        # The longest first, so that a secret which contains another one is replaced whole. Very short values
        # ("1", "true") are in every text and protect nothing.
        self._secrets = sorted((s for s in secrets if len(s) >= shortest), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
