"""What both clients know of the control socket: where it is, how a question is written, what an answer means.

Newline-delimited JSON-RPC 2.0 with the standard library alone. Owns no connection and never waits: `client`
and `aclient` do that, each in its own way.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from supervisor.core.framing import LineFramer, TooLong
from supervisor.core.paths import control_sockets, private_directory
from supervisor.errors import (
    BadConfig,
    Busy,
    Cancelled,
    DaemonUnreachable,
    ForeignError,
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

Message = dict[str, Any]
Params = Mapping[str, Any]

CHUNK = 256 * 1024
LONGEST_ANSWER = 1 << 30
"""Bytes; the daemon's own limits are far below, so this only stops a stranger who talks without end."""
CONNECT_TIMEOUT = 5.0
PATIENCE = 60.0
"""Seconds that an answer may take when nobody says otherwise."""
LONGEST_CALL = 3600.0
"""Seconds that the daemon lets a call live at most, unless the configuration says otherwise."""
GRACE = 10.0
"""Seconds in which the daemon, which keeps the time of a call itself, says that it is over."""
START_IT = "start it with 'mcp-supervisor run' or 'systemctl start mcp-supervisor'"
SEE_LOG = "see the daemon's log, and 'mcp-supervisor status'"

_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

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


class ConnectionEnded(Exception):
    """The daemon hung up; says how, in words for the middle of a sentence."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is, as its server tells."""

    progress: float
    total: float | None
    message: str | None


# Where the daemon is.


def find_socket(explicit: str | None) -> str:
    """The chosen socket, or the first of the usual ones that this user may open.

    Raises:
        DaemonUnreachable: there is none.
        BadConfig: no socket can have that path.
    """
    places = control_sockets(explicit, os.environ, uid=os.getuid())
    if len(places) == 1:
        return places[0]
    for place in places:
        if os.access(place, os.W_OK) and _trusted(place):
            return place
    raise DaemonUnreachable(
        f"cannot reach the daemon: there is no socket at {' or '.join(places)}; "
        f"{START_IT}, or say with --socket or MCP_SUPERVISOR_SOCKET where it is"
    )


def _trusted(place: str) -> bool:
    """Whether nobody else can have put a socket there: any user can make a directory in /tmp first."""
    from pathlib import Path

    directory = Path(place).parent
    return str(directory) != private_directory(os.getuid()) or directory.lstat().st_uid == os.getuid()


def unreachable(path: str, error: OSError) -> DaemonUnreachable:
    """Why no connection came about, and what to do about it."""
    return DaemonUnreachable(f"cannot reach the daemon: {_why_unreachable(path, error)}")


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


# How a question is written.


def request_line(identity: int, method: str, params: Params | None) -> bytes:
    return _line({"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}})


def notification_line(method: str, params: Params) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def cancel_line(identity: int) -> bytes:
    """What takes a request back."""
    return notification_line("notifications/cancelled", {"requestId": identity})


def _line(message: Message) -> bytes:
    return _encoder.encode(message).encode() + b"\n"


def chosen(**options: object) -> dict[str, Any]:
    """The options that somebody gave: neither None nor False."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def call_params(name: str, arguments: Params | None, **options: object) -> dict[str, Any]:
    """The params of `tools/call`, with the options that were given."""
    return {"name": name, "arguments": arguments or {}, **chosen(**options)}


def call_patience(timeout: float | None) -> float:
    """Seconds after which a call without an answer is given up on this side too."""
    return GRACE + (LONGEST_CALL if timeout is None else timeout)


# What an answer means.


class Incoming:
    """From the bytes of one connection to its messages."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._framer = LineFramer(LONGEST_ANSWER)

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages that became complete.

        Raises:
            DaemonUnreachable: who answers here does not speak JSON-RPC.
        """
        try:
            messages = [json.loads(line) for line in self._framer.feed(chunk)]
        except (ValueError, RecursionError, TooLong):
            raise self._stranger() from None
        if not _are_objects(messages):
            raise self._stranger()
        return messages

    def _stranger(self) -> DaemonUnreachable:
        return DaemonUnreachable(
            f"cannot understand what answers at {self._path}: it does not speak JSON-RPC; "
            "check that --socket names the control socket of mcp-supervisor"
        )


def _are_objects(messages: Sequence[Any]) -> TypeGuard[list[Message]]:
    return all(isinstance(message, dict) for message in messages)


def is_notification(message: Message) -> bool:
    return "method" in message and "id" not in message


def result_of(reply: Message) -> Any:
    """What was asked for.

    Raises:
        SupervisorError: the answer is an error; the type follows its code.
    """
    if "error" in reply:
        raise typed(reply["error"])
    return reply.get("result")


def typed(error: Any) -> SupervisorError:
    """The error as its type, with all its data."""
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, message = fields.get("code"), str(fields.get("message") or f"cannot do that: {error!r}")
    kind = _KINDS.get(code) if isinstance(code, int) else None
    if kind is None:
        found: SupervisorError = ForeignError(message, answered_code=code if isinstance(code, int) else 0)
    else:
        found = kind(message)
    answered = fields.get("data")
    if answered is not None:
        found.data = answered if isinstance(answered, dict) else {"data": answered}
    return found


def progress_of(message: Message, token: int) -> Progress | None:
    """What the message tells of the call with that token; None when it is about something else."""
    match message:
        case {"method": "notifications/progress", "params": {"progressToken": seen} as told} if seen == token:
            details = cast("dict[str, Any]", told)
            return Progress(details.get("progress", 0), details.get("total"), details.get("message"))
        case _:
            return None


def no_answer(method: str, seconds: float) -> DaemonUnreachable:
    return DaemonUnreachable(f"cannot get an answer to {method} within {seconds:g} s; {SEE_LOG}")


def no_account(method: str, end: object) -> DaemonUnreachable:
    return DaemonUnreachable(f"cannot learn what became of {method}: {end}; {SEE_LOG}")


def not_sent(method: str, error: OSError) -> DaemonUnreachable:
    return DaemonUnreachable(f"cannot send {method}: {error.strerror or error}; {SEE_LOG}")
