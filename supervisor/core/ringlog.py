"""The last lines that a server wrote, with their times, within fixed bounds.

A ring takes chunks of bytes as they come from a pipe, cuts them into lines and forgets the oldest. It
never blocks and never grows: a line that does not end is cut, a flood pushes itself out.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct


class Line(Struct, frozen=True):
    at: float
    text: str


class RingLog:
    """At most `max_lines` lines and `max_bytes` bytes of what was written last."""

    def __init__(
        self,
        *,
        redact: Callable[[str], str] = str,
        on_line: Callable[[Line], None] = lambda _line: None,
        max_lines: int = 500,
        max_bytes: int = 256 * 1024,
        max_line: int = 8 * 1024,
    ) -> None:
        self._redact, self._on_line = redact, on_line
        self._max_lines, self._max_bytes, self._max_line = max_lines, max_bytes, max_line
        self._lines: deque[Line] = deque()
        self._kept = 0
        self._open = b""
        self.total_bytes = 0
        """All that was ever fed, kept or not."""

    def feed(self, chunk: bytes, *, now: float, most: int | None = None) -> list[Line]:
        """Take a chunk; the lines it completed, oldest first, at most as many as the ring can hold.

        Of what is longer than `most` bytes only so many are kept, with a word on how many were left out.
        """
        self.total_bytes += len(chunk)
        if most is not None and len(chunk) > most:
            chunk = self._skimmed(chunk, most)
        tail = chunk[-self._max_bytes :]
        *whole, self._open = (self._open + tail).split(b"\n")
        if len(self._open) > self._max_line:
            whole.append(self._open)
            self._open = b""
        added = [self._line(raw, now) for raw in whole[-self._max_lines :]]
        for line in added:
            self._keep(line)
        return added

    def _skimmed(self, chunk: bytes, most: int) -> bytes:
        """The end of a chunk, from the start of a line, and a line that says what is missing before it."""
        start = chunk.rfind(b"\n", 0, len(chunk) - most) + 1 or len(chunk) - most
        left_out = len(self._open) + start
        self._open = b""
        return b"[%d bytes left out: too much at once]\n%b" % (left_out, chunk[start:])

    def flush(self, *, now: float) -> None:
        """Keep what was written without a newline at its end; nothing more will come."""
        if self._open:
            self._keep(self._line(self._open, now))
            self._open = b""

    def add_line(self, raw: bytes, *, now: float) -> None:
        """Keep a line that the server wrote elsewhere; it is not counted, and cuts no open line in two."""
        self._keep(self._line(raw, now))

    def tail(self, count: int) -> tuple[Line, ...]:
        """The last `count` lines, oldest first."""
        return tuple(self._lines)[-count:] if count > 0 else ()

    def blot(self) -> None:
        """Redact what is kept once more, as more is a secret now."""
        self._lines = deque(Line(line.at, self._redact(line.text)) for line in self._lines)
        self._kept = sum(len(line.text) for line in self._lines)

    def _line(self, raw: bytes, now: float) -> Line:
        # Redacted before it is cut, or the cut could leave half a secret.
        text = self._redact(raw.decode("utf-8", "replace").rstrip("\r"))
        if len(text) > self._max_line:
            text = f"{text[: self._max_line]} [{len(text) - self._max_line} characters cut]"
        return Line(now, text)

    def _keep(self, line: Line) -> None:
        self._lines.append(line)
        self._on_line(line)
        self._kept += len(line.text)
        while len(self._lines) > self._max_lines or self._kept > self._max_bytes:
            self._kept -= len(self._lines.popleft().text)


class Redactor:
    """Replaces the secrets of one server wherever they stand in a text."""

    def __init__(self, secrets: frozenset[str], *, shortest: int = 6) -> None:
        # A text is often one line of what was written, so a secret of many lines is also each of its lines.
        # The longest first, so that a secret which contains another one is replaced whole. Very short values
        # ("1", "true") are in every text and protect nothing.
        parts = {part for secret in secrets for part in (secret, *secret.splitlines())}
        self._secrets = sorted((part for part in parts if len(part) >= shortest), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """A JSON value with every string in it redacted, keys included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(item, redact) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {redact(key): redacted(item, redact) for key, item in items}
    return value
