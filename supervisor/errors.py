"""Everything we raise on purpose, by what a caller can do about it.

A type carries its JSON-RPC code and its exit status, so both are mapped once, here. Messages start with
"cannot" and end with what to do next where there is something to do. How a server ended is a value
(`core.lifecycle.End`), not an exception.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

DONE, FAILED, USAGE, NOT_RUNNING, UNREACHABLE, BAD_CONFIG = 0, 1, 2, 3, 69, 78


class Outcome(StrEnum):
    """What became of a call; every call ends in exactly one of these."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    REJECTED = "rejected"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class SupervisorError(Exception):
    """Base of everything we raise on purpose."""

    code: ClassVar[int] = INTERNAL_ERROR
    exit_status: ClassVar[int] = FAILED

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message)
        self.data: Mapping[str, Any] = {key: value for key, value in known.items() if value is not None}
        """What is known beside the sentence: `server`, `outcome`, `phase`, `exit`, `stderr`, `retryAfter`."""


class InvalidRequest(SupervisorError):
    code = INVALID_REQUEST


class UnknownMethod(SupervisorError):
    code = METHOD_NOT_FOUND


class InvalidParams(SupervisorError):
    code = INVALID_PARAMS


class UnknownServer(SupervisorError):
    code = -32001
    exit_status = NOT_RUNNING


class UnknownTool(SupervisorError):
    code = -32002


class ServerUnavailable(SupervisorError):
    code = -32003


class ServerDied(SupervisorError):
    code = -32004


class TimedOut(SupervisorError):
    code = -32005


class Cancelled(SupervisorError):
    code = -32006


class Busy(SupervisorError):
    code = -32007


class RefusedByPolicy(SupervisorError):
    code = -32008


class TooLarge(SupervisorError):
    code = -32009


class BadAnswer(SupervisorError):
    """A server answered, and what it said cannot be passed on."""


class BadConfig(SupervisorError):
    code = -32010
    exit_status = BAD_CONFIG


class DaemonUnreachable(SupervisorError):
    """Nobody answers at the control socket."""

    exit_status = UNREACHABLE


class AlreadyRunning(SupervisorError):
    """Another daemon holds the control socket."""


class ForeignError(SupervisorError):
    """An error whose code is not ours: a server's own, passed through as it was."""

    def __init__(self, message: str, *, answered_code: int) -> None:
        super().__init__(message)
        self.answered_code = answered_code
