"""Server-sent events: chunks of bytes in, whole events out, in linear time and with a bound.

The parser follows the event-stream format of the HTML standard on bytes, so that a payload passes as it
came. It knows no HTTP and no JSON. `TooLong` is raised as soon as an event passes the bound, not at its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from supervisor.core.framing import TooLong

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS = (b"\n", b"\r")
_LONGEST_ID = 1024
_LONGEST_RETRY = 20


@dataclass(frozen=True, slots=True)
class ServerEvent:
    data: bytes
    kind: str = "message"


class EventParser:
    """What is known of one stream of events."""

    __slots__ = (
        "_after_return",
        "_data",
        "_kind",
        "_limit",
        "_parts",
        "_size",
        "_started",
        "last_id",
        "retry",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        """The pieces of a line whose end has not come."""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes held for the event under way, in whole lines and in pieces."""
        self._kind = b""
        self._started = self._after_return = False
        self.last_id = ""
        """After which event a broken stream may be resumed; empty when the server names none."""
        self.retry: float | None = None
        """Seconds that the server asks to wait before the stream is opened again."""

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events completed by `chunk`, found as they are asked for; ask for all before the next chunk.

        Raises:
            TooLong: an event passed the bound; the stream cannot be followed any further.
        """
        # A carriage return ended the last line; a newline after it belongs to it.
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        lines = chunk.splitlines()
        rest = lines.pop() if lines and not chunk.endswith(_LINE_ENDS) else b""
        for line in lines:
            if (event := self._take(self._joined(line))) is not None:
                yield event
        if rest:
            self._parts.append(rest)
            self._grow(len(rest))
        if chunk.endswith(b"\r"):
            self._after_return = True

    def restart(self) -> None:
        """The stream broke off: what is incomplete is void, what was learnt stays."""
        self._parts, self._data, self._size, self._kind = [], [], 0, b""
        self._started = self._after_return = False

    def _joined(self, line: bytes) -> bytes:
        if self._parts:
            self._size -= sum(map(len, self._parts))
            line = b"".join((*self._parts, line))
            self._parts = []
        if not self._started:
            self._started = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        return line

    def _take(self, line: bytes) -> ServerEvent | None:
        """Take in one line; an empty one ends an event."""
        if not line:
            return self._dispatch()
        name, start = line, len(line)
        if (colon := line.find(b":")) >= 0:
            name, start = line[:colon], colon + 1
            start += line.startswith(b" ", start)
        match name:
            case b"data":
                self._data.append(line[start:])
                self._grow(len(line))
            case b"event":
                self._kind = line[start:]
                self._grow(0)
            case b"id" if b"\0" not in line and len(line) <= _LONGEST_ID:
                self.last_id = line[start:].decode("utf-8", "replace")
            case b"retry" if line[start:].isdigit() and len(line) <= _LONGEST_RETRY:
                self.retry = int(line[start:]) / 1000
            case _:
                pass  # a comment, or a field of a later day
        return None

    def _dispatch(self) -> ServerEvent | None:
        data, kind = b"\n".join(self._data), self._kind.decode("utf-8", "replace")
        self._data, self._size, self._kind = [], 0, b""
        return ServerEvent(data, kind or "message") if data else None

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size + len(self._kind) > self._limit:
            self.restart()
            raise TooLong(self._limit)
