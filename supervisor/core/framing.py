"""From chunks of bytes to whole messages, in time linear in the bytes, with a bound on what is kept.

A framer is fed what a pipe or a socket gave and returns the messages that became complete. A message that
stayed within one chunk is cut out of it once; one that spans chunks is gathered once, however many there
were. `TooLong` is raised as soon as a message passes the bound, not when it ends, so memory stays bounded.
Of one that would take too much to be read there is an `Excerpt`.
"""

import re
import sys
from typing import Literal, Protocol, cast

from supervisor.core.labour import Scales

Framing = Literal["newline", "content-length"]

_MAX_HEADER = 4096
_LARGE = 1024 * 1024
_BLANK_LINES = re.compile(rb"[\r\n]*")
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")


class Unframed(ValueError):
    """The stream cannot be followed any further; `before` holds the whole messages that came before that."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.before: list[bytes] = []


class TooLong(Unframed):
    """A message grew past the bound."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a message is longer than {limit} bytes")
        self.limit = limit


class BadHeader(Unframed):
    """What should be a Content-Length header is not one."""


class Framer(Protocol):
    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages completed by `chunk`, without their framing."""
        ...

    @property
    def rest(self) -> bytes:
        """What has been fed and belongs to no complete message yet."""
        ...


class LineFramer:
    """Messages end with a newline; a carriage return before it is left to the JSON parser as white space.

    A message that spans chunks grows in one buffer. A large one is handed over as that buffer: nobody changes
    it any more, and copying it would stop the loop.
    """

    __slots__ = ("_limit", "_scales", "open")

    def __init__(self, limit: int, patience: int = sys.maxsize) -> None:
        self._limit = limit
        self._scales = Scales(patience)
        self.open = bytearray()
        """What has come of a message that has not ended."""

    def feed(self, chunk: bytes) -> list[bytes]:
        if not self.open and chunk.endswith(b"\n") and len(chunk) <= self._limit:
            return chunk[:-1].split(b"\n")
        *lines, rest = chunk.split(b"\n")
        if lines and self.open:
            self._grow(lines[0])
            lines[0], self.open = self._whole(), bytearray()
        for index, line in enumerate(lines):
            if len(line) > self._limit:
                raise self._too_long(lines[:index])
        if rest:
            self._grow(rest)
            if len(self.open) > self._limit:
                raise self._too_long(lines)
        return lines

    def _grow(self, part: bytes) -> None:
        self.open += part
        self._scales.add(part)

    def _whole(self) -> bytes:
        whole = bytes(self.open) if len(self.open) < _LARGE else cast("bytes", self.open)
        return self._scales.taken(whole)

    def _too_long(self, before: list[bytes]) -> TooLong:
        self._scales.taken(b"")
        self.open = bytearray()
        problem = TooLong(self._limit)
        problem.before = before
        return problem

    @property
    def rest(self) -> bytes:
        return bytes(self.open)


class LengthFramer:
    """Messages have a `Content-Length: N` header, as in the Language Server Protocol."""

    __slots__ = ("_body", "_head", "_left", "_limit", "_scales")

    def __init__(self, limit: int, patience: int = sys.maxsize) -> None:
        self._limit = limit
        self._scales = Scales(patience)
        self._head = b""
        self._body: list[bytes] = []
        self._left: int | None = None
        """Bytes that the body still lacks; None while a header is awaited."""

    def feed(self, chunk: bytes) -> list[bytes]:
        messages: list[bytes] = []
        chunk, self._head, at = self._head + chunk, b"", 0
        try:
            while at < len(chunk) or self._left == 0:
                reads_header = self._left is None
                at = self._read_header(chunk, at) if reads_header else self._read_body(chunk, at, messages)
        except Unframed as problem:
            problem.before = messages
            raise
        return messages

    def _read_header(self, chunk: bytes, at: int) -> int:
        blank = _BLANK_LINES.match(chunk, at)
        assert blank is not None
        at = blank.end()
        end = _END_OF_HEADER.search(chunk, at, at + _MAX_HEADER)
        if end is not None:
            self._left = self._length(chunk[at : end.start()])
            return end.end()
        if len(chunk) - at >= _MAX_HEADER:
            raise BadHeader(f"no end of the message header within {_MAX_HEADER} bytes")
        self._head = chunk[at:]
        return len(chunk)

    def _length(self, header: bytes) -> int:
        for line in header.splitlines():
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
                if length > self._limit:
                    raise TooLong(self._limit)
                return length
        raise BadHeader(f"no Content-Length in the message header {header[:80]!r}")

    def _read_body(self, chunk: bytes, at: int, messages: list[bytes]) -> int:
        assert self._left is not None
        part = chunk[at : at + self._left]
        self._body.append(part)
        self._scales.add(part)
        self._left -= len(part)
        if self._left == 0:
            messages.append(self._scales.taken(b"".join(self._body)))
            self._body, self._left = [], None
        return at + len(part)

    @property
    def rest(self) -> bytes:
        return self._head + b"".join(self._body)


def framer(framing: Framing, limit: int, patience: int = sys.maxsize) -> Framer:
    """A new framer for one stream."""
    return LineFramer(limit, patience) if framing == "newline" else LengthFramer(limit, patience)


def framed(framing: Framing, message: bytes) -> bytes:
    """The bytes that carry `message`, which has no newline in it."""
    if framing == "newline":
        return message + b"\n"
    return b"Content-Length: %d\r\n\r\n%s" % (len(message), message)
