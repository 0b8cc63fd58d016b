"""From chunks of bytes to whole messages, in time linear in the bytes, with a bound on what is kept.

A framer is fed what a pipe or a socket gave and returns the messages that became complete. A message that
stayed within one chunk is cut out of it once; one that spans chunks is joined once, however many there
were. `TooLong` is raised as soon as a message passes the bound, not when it ends, so memory stays bounded.
"""

from typing import Literal, Protocol

Framing = Literal["newline", "content-length"]

_MAX_HEADER = 4096


class TooLong(ValueError):
    """A message grew past the bound; the stream cannot be followed any further."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a message is longer than {limit} bytes")
        self.limit = limit


class BadHeader(ValueError):
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
    """Messages end with a newline; a carriage return before it is left to the JSON parser as white space."""

    __slots__ = ("_limit", "_parts", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        if not self._parts and chunk.endswith(b"\n") and len(chunk) <= self._limit:
            return chunk[:-1].split(b"\n")
        *lines, rest = chunk.split(b"\n")
        if lines and self._parts:
            self._check(self._size + len(lines[0]))
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            self._check(self._size)
        for line in lines:
            self._check(len(line))
        return lines

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._parts, self._size = [], 0
            raise TooLong(self._limit)

    @property
    def rest(self) -> bytes:
        return b"".join(self._parts)


class LengthFramer:
    """Messages have a `Content-Length: N` header, as in the Language Server Protocol."""

    __slots__ = ("_body", "_have", "_head", "_limit", "_want")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = b""
        self._body: list[bytes] = []
        self._have = 0
        self._want: int | None = None

    def feed(self, chunk: bytes) -> list[bytes]:
        messages: list[bytes] = []
        while chunk:
            chunk = self._read_head(chunk) if self._want is None else self._read_body(chunk, messages)
        return messages

    def _read_head(self, chunk: bytes) -> bytes:
        head = (self._head + chunk).lstrip(b"\r\n")
        for end in (b"\r\n\r\n", b"\n\n"):
            at = head.find(end)
            if at >= 0:
                self._want, self._head = self._length(head[:at]), b""
                return head[at + len(end) :]
        if len(head) > _MAX_HEADER:
            raise BadHeader("no end of the message header within 4096 bytes")
        self._head = head
        return b""

    def _length(self, head: bytes) -> int:
        for line in head.splitlines():
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
                if length > self._limit:
                    raise TooLong(self._limit)
                return length
        raise BadHeader(f"no Content-Length in the message header {head[:80]!r}")

    def _read_body(self, chunk: bytes, messages: list[bytes]) -> bytes:
        assert self._want is not None
        part = chunk[: self._want - self._have]
        self._body.append(part)
        self._have += len(part)
        if self._have == self._want:
            messages.append(b"".join(self._body))
            self._body, self._have, self._want = [], 0, None
        return chunk[len(part) :]

    @property
    def rest(self) -> bytes:
        return self._head + b"".join(self._body)


def framer(framing: Framing, limit: int) -> Framer:
    """A new framer for one stream."""
    return LineFramer(limit) if framing == "newline" else LengthFramer(limit)


def framed(framing: Framing, message: bytes) -> bytes:
    """The bytes that carry `message`, which has no newline in it."""
    if framing == "newline":
        return message + b"\n"
    return b"Content-Length: %d\r\n\r\n%s" % (len(message), message)
