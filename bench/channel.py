"""Requests and answers on one stream of lines, as thin as Python allows: what both ends of a ratio stand on.

`bare` talks through it to a server's pipes and the thin client to the daemon's socket, so the difference
between the two is the daemon and nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from bench.load import Done, Send

_NOTHING = msgspec.Raw(b"")
LOST = "the connection ended"


class Answer(msgspec.Struct, gc=False):
    id: int | None = None
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


read_answer = msgspec.json.Decoder(Answer).decode

OnAnswer = Callable[[Answer | None], None]
"""Told the answer, or None when the connection ended before it."""


def request_tail(method: str, params: Any) -> bytes:
    """A request but for its beginning and its id, ready to be sent any number of times."""
    return b',"method":"%b","params":%b}\n' % (method.encode(), msgspec.json.encode(params))


class Channel(asyncio.Protocol):
    """One connection; `write` is set by whoever connects it."""

    write: Callable[[bytes], None]

    def __init__(self) -> None:
        self._last_id = 0
        self._waiting: dict[int, OnAnswer] = {}
        self._parts: list[bytes] = []

    def send(self, tail: bytes, on_answer: OnAnswer) -> None:
        self._last_id = number = self._last_id + 1
        self._waiting[number] = on_answer
        self.write(b'{"jsonrpc":"2.0","id":%d%b' % (number, tail))

    def notify(self, method: str) -> None:
        self.write(b'{"jsonrpc":"2.0","method":"%b"}\n' % method.encode())

    async def ask(self, method: str, params: Any) -> msgspec.Raw:
        """The result of one request.

        Raises:
            RuntimeError: it was refused, or the connection ended.
        """
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.send(request_tail(method, params), answered.set_result)
        answer = await answered
        if answer is None or answer.error:
            raise RuntimeError(f"cannot {method}: {LOST if answer is None else bytes(answer.error)!r}")
        return answer.result

    def data_received(self, data: bytes) -> None:
        end = data.find(b"\n")
        if end < 0:
            self._parts.append(data)
            return
        if self._parts:
            end += sum(map(len, self._parts))
            data = b"".join((*self._parts, data))
            self._parts.clear()
        if end == len(data) - 1:
            self._take(data)
            return
        *lines, rest = data.split(b"\n")
        if rest:
            self._parts.append(rest)
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        answer = read_answer(line)
        if answer.id is not None:
            self._waiting.pop(answer.id)(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        waiting, self._waiting = self._waiting, {}
        for on_answer in waiting.values():
            on_answer(None)


def sender(channel: Channel, tail: bytes) -> Send:
    """A way to send that request again and again."""

    def send(done: Done) -> None:
        def on_answer(answer: Answer | None) -> None:
            if answer is None:
                done(LOST)
            else:
                done(answer.error or None)

        channel.send(tail, on_answer)

    return send
