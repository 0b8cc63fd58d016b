"""Answers to clients: each request gets one, alone or as part of its batch.

An answer does not know what it says. It puts the client's id around it and hands it to the connection, or
to the batch that it belongs to, which goes out when its last answer has come.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from supervisor.core.jsonrpc import error_line, fault_line, notification_line, result_head, result_line
from supervisor.errors import SupervisorError

_HEAD = b'{"jsonrpc":"2.0","id":'
_LARGE = 1024 * 1024
"""Bytes of a result above which it goes out as it lies in memory."""


class Connection(Protocol):
    @property
    def write(self) -> Callable[[bytes], bool]:
        """Writes lines that are complete; tells whether anybody is there to read them."""
        ...

    def send(self, message: bytes) -> None: ...

    def send_parts(self, *parts: bytes | memoryview) -> None:
        """Write one message that is large; its parts are not copied."""
        ...

    def tell(self, message: bytes) -> None:
        """Write one message that may be lost."""
        ...

    def answered(self, answer: "Answer") -> None:
        """Called when an answer has gone out."""
        ...

    def drop(self) -> None:
        """Hang up at once: too much waits for this client."""
        ...


class Batch:
    """The answers to one batch; a batch of notifications alone has none."""

    def __init__(self, connection: Connection, expected: int, most_bytes: int) -> None:
        self._connection, self._expected, self._most_bytes = connection, expected, most_bytes
        self._lines: list[bytes] = []
        self.size = 0
        """Bytes of the answers so far."""

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self.size += len(line)
        if len(self._lines) == self._expected:
            self._connection.send(b"[%s]" % b",".join(self._lines))
        elif self.size > self._most_bytes:
            self._lines.clear()
            self._connection.drop()


class Answer(msgspec.Struct, eq=False):
    """The answer to one request; a notification has none, so nothing is sent for it.

    A struct, because one is made for every call, and that is quicker without a constructor in Python.
    """

    _connection: Connection
    identity: bytes | None
    _batch: Batch | None = None
    method: str = ""
    code: str = ""
    """What was answered: `ok`, the code of our error, `fault` for a server's own; empty before that."""

    def result(self, raw: bytes | msgspec.Raw) -> None:
        if self._batch is not None or self.identity is None:
            self._give("ok", result_line(self.identity or b"", raw))
            return
        self.code = "ok"
        if len(raw) < _LARGE:
            self._connection.write(b"".join((_HEAD, self.identity, b',"result":', raw, b"}\n")))
        else:
            self._connection.send_parts(result_head(self.identity), memoryview(raw), b"}")
        self._connection.answered(self)

    def fault(self, raw: bytes | msgspec.Raw) -> None:
        self._give("fault", fault_line(self.identity or b"", raw))

    def error(self, error: SupervisorError) -> None:
        self._give(str(error.code), error_line(self.identity or b"", error.code, str(error), error.data))

    def notify(self, method: str, params: bytes) -> None:
        """Tell the client something before its answer; lost on one that does not read."""
        self._connection.tell(notification_line(method, params))

    def _give(self, code: str, message: bytes) -> None:
        self.code = code
        if self.identity is not None:
            if self._batch is None:
                self._connection.send(message)
            else:
                self._batch.add(message)
        self._connection.answered(self)
