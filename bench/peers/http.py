"""HTTP to a peer on this machine, as thin as the channel of `bare`: kept connections and callbacks.

It reads what the peers write: answers with a `Content-Length`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    head: bytes
    """In lower case."""
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header; empty where there is none."""
        for line in self.head.split(b"\r\n"):
            key, _, value = line.partition(b": ")
            if key == name.encode():
                return value.decode()
        return ""


OnAnswer = Callable[[Answer | None], None]
"""Told the answer, or None when the connection ended before it."""


def request(
    method: str, path: str, body: bytes = b"", *, accept: str = "application/json", more: str = ""
) -> bytes:
    """A whole request, ready to be sent any number of times; `more` is further header lines."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """One request at a time; free again with its answer."""

    def __init__(self, free: "list[_Connection]") -> None:
        self._free = free
        self._on_answer: OnAnswer | None = None
        self._parts: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def send(self, content: bytes, on_answer: OnAnswer) -> None:
        self._on_answer = on_answer
        self._write(content)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing <= 0:
            self._take(b"".join(self._parts))

    def _take(self, received: bytes) -> None:
        """End the request when its answer is whole, else note how much is missing."""
        self._parts = [received]
        end = received.find(_END_OF_HEAD)
        if end < 0:
            return
        head = received[:end].lower()
        start = head.index(_LENGTH) + len(_LENGTH)
        body_at = end + len(_END_OF_HEAD)
        self._missing = body_at + int(head[start:].partition(b"\r\n")[0]) - len(received)
        if self._missing > 0:
            return
        self._parts, self._missing = [], 0
        self._free.append(self)
        self._end(Answer(int(head[9:12]), head, received[body_at:]))

    def _end(self, answer: Answer | None) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        if self in self._free:
            self._free.remove(self)
        self._end(None)


class Pool:
    """As many connections to one port as requests are under way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[_Connection] = []
        self._connecting: set[asyncio.Task[None]] = set()

    def send(self, content: bytes, on_answer: OnAnswer) -> None:
        if self._free:
            self._free.pop().send(content, on_answer)
            return
        task = asyncio.get_running_loop().create_task(self._connect_and_send(content, on_answer))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect_and_send(self, content: bytes, on_answer: OnAnswer) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: _Connection(self._free), "127.0.0.1", self._port
            )
        except OSError:
            on_answer(None)
        else:
            connection.send(content, on_answer)

    async def ask(self, content: bytes) -> Answer | None:
        """The answer to one request."""
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.send(content, answered.set_result)
        return await answered
