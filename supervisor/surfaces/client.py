"""The other end of the control socket, for programs that wait for their answer.

`SyncClient` owns one connection and speaks newline-delimited JSON-RPC 2.0 on it, one request at a time,
with the standard library alone. Every wait has a bound. It never retries: a call is never sent twice.
"""

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self, cast

from supervisor.errors import (
    BadConfig,
    Busy,
    Cancelled,
    DaemonUnreachable,
    InvalidParams,
    InvalidRequest,
    RefusedByPolicy,
    ServerDied,
    ServerUnavailable,
    SupervisorError,
    TimedOut,
    TooLarge,
    UnknownMethod,
    UnknownServer,
    UnknownTool,
)

CHUNK = 256 * 1024
SHORTEST_WAIT = 0.001
"""Seconds; a wait of none at all would mean to a socket that it must not block."""
START_IT = "start it with 'mcp-supervisor run' or 'systemctl start mcp-supervisor'"
SEE_LOG = "see the daemon's log, and 'mcp-supervisor status'"

OnNotification = Callable[[str, Any], None]

_KINDS: Mapping[int, type[SupervisorError]] = {
    kind.code: kind
    for kind in (
        SupervisorError,
        InvalidRequest,
        UnknownMethod,
        InvalidParams,
        UnknownServer,
        UnknownTool,
        ServerUnavailable,
        ServerDied,
        TimedOut,
        Cancelled,
        Busy,
        RefusedByPolicy,
        TooLarge,
        BadConfig,
    )
}


class ForeignError(SupervisorError):
    """An error whose code is not ours: a server's own, passed through as it was."""

    def __init__(self, message: str, *, answered_code: int) -> None:
        super().__init__(message)
        self.answered_code = answered_code


class SyncClient:
    """A connection to the daemon at `path`; close it, or use it in a `with` statement.

    Raises:
        DaemonUnreachable: nobody listens there, or this user may not connect.
    """

    def __init__(self, path: str, *, connect_timeout: float = 5.0) -> None:
        self.path = path
        self._socket = _connect(path, connect_timeout)
        self._lines = _Lines()
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the daemon cancels what is still in flight on it."""
        self._socket.close()

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float,
        on_notification: OnNotification | None = None,
    ) -> Any:
        """The result of `method`; notifications that come first go to `on_notification`.

        A wait that ends without an answer, by time or by Ctrl-C, cancels the request at the daemon.

        Raises:
            SupervisorError: the daemon answered with an error; the type follows its code.
            DaemonUnreachable: no answer within `timeout` seconds, or the connection ended.
        """
        deadline = time.monotonic() + timeout
        self._last_id += 1
        request_id = self._last_id
        self._send({"id": request_id, "method": method, "params": params or {}}, deadline)
        try:
            reply = self._reply(request_id, deadline, on_notification)
        except KeyboardInterrupt:
            self._cancel(request_id)
            raise
        except _OutOfTime:
            self._cancel(request_id)
            raise DaemonUnreachable(
                f"cannot get an answer to {method} within {timeout:g} s; {SEE_LOG}"
            ) from None
        except _ConnectionEnded as end:
            raise DaemonUnreachable(f"cannot learn what became of {method}: {end}; {SEE_LOG}") from None
        if "error" in reply:
            raise _typed(reply["error"])
        return reply.get("result")

    def notify(self, method: str, params: Mapping[str, Any], *, timeout: float) -> None:
        """Send a message that has no answer.

        Raises:
            DaemonUnreachable: the daemon does not take it.
        """
        self._send({"method": method, "params": params}, time.monotonic() + timeout)

    def wait_closed(self, *, timeout: float) -> bool:
        """Whether the daemon ends the connection within `timeout` seconds; what it still sends is dropped."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                self._receive(deadline)
        except _OutOfTime:
            return False
        except _ConnectionEnded:
            return True

    def _cancel(self, request_id: int) -> None:
        with suppress(DaemonUnreachable):  # the end of the connection cancels as well
            self.notify("notifications/cancelled", {"requestId": request_id}, timeout=1.0)

    def _send(self, message: Mapping[str, Any], deadline: float) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False).encode() + b"\n"
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), SHORTEST_WAIT))
            self._socket.sendall(line)
        except KeyboardInterrupt:
            self.close()  # half a line may be out; the daemon cancels what a lost client asked for
            raise
        except OSError as error:
            self.close()
            why = error.strerror or error
            raise DaemonUnreachable(f"cannot send {message['method']}: {why}; {SEE_LOG}") from None

    def _reply(
        self, request_id: int, deadline: float, on_notification: OnNotification | None
    ) -> dict[str, Any]:
        while True:
            message = self._message(deadline)
            if "method" in message:
                if on_notification is not None and "id" not in message:
                    on_notification(message["method"], message.get("params"))
            elif message.get("id") == request_id or ("error" in message and message.get("id") is None):
                return message

    def _message(self, deadline: float) -> dict[str, Any]:
        while (line := self._lines.pop()) is None:
            self._lines.feed(self._receive(deadline))
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise DaemonUnreachable(
                f"cannot understand what answers at {self.path}: it does not speak JSON-RPC; "
                "check that --socket names the control socket of mcp-supervisor"
            )
        return cast("dict[str, Any]", message)

    def _receive(self, deadline: float) -> bytes:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise _OutOfTime
        self._socket.settimeout(remaining)
        try:
            chunk = self._socket.recv(CHUNK)
        except TimeoutError:
            raise _OutOfTime from None
        except OSError as error:
            raise _ConnectionEnded(f"the connection to the daemon broke ({error.strerror})") from None
        if not chunk:
            raise _ConnectionEnded("the daemon closed the connection")
        return chunk


class _OutOfTime(Exception):
    """The deadline came before the answer."""


class _ConnectionEnded(Exception):
    """The daemon hung up."""


class _Lines:
    """Bytes in, lines out; the parts of a long line are joined once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._whole: deque[bytes] = deque()

    def feed(self, chunk: bytes) -> None:
        first, *rest = chunk.split(b"\n")
        self._parts.append(first)
        if rest:
            self._whole.append(b"".join(self._parts))
            self._whole.extend(rest[:-1])
            self._parts = [rest[-1]]

    def pop(self) -> bytes | None:
        return self._whole.popleft() if self._whole else None


def _connect(path: str, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise DaemonUnreachable(f"cannot reach the daemon: {_why_unreachable(path, error)}") from None
    return connection


def _why_unreachable(path: str, error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return f"there is no socket at {path}; {START_IT}, or say with --socket where it is"
        case ConnectionRefusedError():
            return f"nobody listens at {path}, the last daemon there is gone; {START_IT}"
        case PermissionError():
            return f"this user may not open {path}; run this as the daemon's user or join its group"
        case TimeoutError() | BlockingIOError():
            return f"it does not take connections at {path} now; try again, or look at its log"
        case _:
            return f"{path}: {error.strerror or error}; check --socket"


def _typed(error: Any) -> SupervisorError:
    """The error as its type, with all its data."""
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, message = fields.get("code"), str(fields.get("message") or f"cannot do that: {error!r}")
    kind = _KINDS.get(code) if isinstance(code, int) else None
    if kind is None:
        typed: SupervisorError = ForeignError(message, answered_code=code if isinstance(code, int) else 0)
    else:
        typed = kind(message)
    answered = fields.get("data")
    if answered is not None:
        typed.data = answered if isinstance(answered, dict) else {"data": answered}
    return typed
