"""What an HTTP status means for the request that met it: refused, not looked at, or nobody knows.

The difference matters: only what was certainly not looked at may be asked again.
"""

import email.utils
import re
import time
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from supervisor.core.framing import TooLong
from supervisor.core.jsonrpc import NO_RAW, read_fault, read_message
from supervisor.errors import METHOD_NOT_FOUND, BadAnswer, InvalidRequest, Outcome, SupervisorError
from supervisor.runtime.httpdoor import CutOff, Reply
from supervisor.runtime.wire import NotSent, is_text, one_line

_LONGEST_PAUSE = 3600.0
_SHOWN = 64 * 1024
"""Bytes of an error's body that are looked at."""
_CALL = "tools/call"
_SESSION_NOT_FOUND = -32001
_NOBODY = (None, "server-error")
"""Under which servers put an error that answers no request in particular."""
_LOST_SESSION = re.compile(
    rb"(no valid|invalid|unknown|expired|missing|no such) (mcp[- ])?session"
    rb"|session( id)?( is| was| has)?( not found| invalid| expired| terminated| unknown)"
    rb"|session( id)? (does not exist|is required)|server not initialized",
    re.IGNORECASE,
)
_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class Refusal(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, error: msgspec.Raw, *, session_doubtful: bool = False) -> None:
        super().__init__(f"refused with HTTP {status}")
        self.error, self.status = error, status
        self.session_doubtful = session_doubtful
        """The server may have forgotten the session, but it may have done what it was asked, too."""


class BareRefusal(Refusal):
    """The server answered with a status that says no, and with no error in the words of JSON-RPC."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(status, msgspec.Raw(b""))
        sentence = f"the server answered {line}"
        # What it calls our fault it has refused; with a fault of its own it may have run all the same.
        self.problem: SupervisorError = (
            InvalidRequest(sentence, outcome=Outcome.REJECTED)
            if status < HTTPStatus.INTERNAL_SERVER_ERROR
            else BadAnswer(sentence, outcome=Outcome.UNKNOWN)
        )


class SessionGone(BareRefusal):
    """The server does not know our session any more; it has not looked at the request."""


class Denied(NotSent):
    """The server wants credentials that it did not get."""


class Paused(NotSent):
    """The server asks to be let alone for a while."""

    def __init__(self, detail: str, retry_after: float) -> None:
        super().__init__(detail, retry_after)
        self.seconds = retry_after


async def failure(
    reply: Reply, *, in_session: bool, method: str = "", number: int | None = None
) -> Exception:
    """What to raise for an answer that is not a success; `method` and `number` tell what was asked.

    Raises:
        CutOff: the answer broke off.
    """
    if reply.status == HTTPStatus.UNAUTHORIZED or (
        # Who may list tools may still be denied one of them.
        reply.status == HTTPStatus.FORBIDDEN and method != _CALL
    ):
        return Denied(f"needs credentials: it answered {reply.line}")
    pause = _pause(reply.header("retry-after"), now=time.time())
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS or (
        reply.status == HTTPStatus.SERVICE_UNAVAILABLE and pause is not None
    ):
        pause = 1.0 if pause is None else pause
        return Paused(f"answered {reply.line} and asks to be let alone for {pause:.0f} s", pause)
    body = one_line(await _body(reply))
    error = _Error.within(body, number)
    gone = in_session and error.tells_of_a_lost_session(reply.status)
    if gone and not (error.ours and method == _CALL):
        return SessionGone(reply.status, f"{reply.line}: it has forgotten the session")
    if error.raw:
        return Refusal(reply.status, error.raw, session_doubtful=gone)
    if reply.status in _GATEWAY:
        return CutOff(f"was cut off by {reply.line}")
    return BareRefusal(reply.status, reply.line)


@dataclass(frozen=True, slots=True)
class _Error:
    """What the body of an answer says is wrong."""

    raw: msgspec.Raw
    """The error in the words of JSON-RPC; empty when there is none."""
    code: int
    text: bytes
    ours: bool
    """It names our request, so whoever wrote it has looked at that."""
    nobody: bool
    """It names no request at all."""

    @classmethod
    def within(cls, body: bytes, number: int | None) -> "_Error":
        message = read_message(body)
        if message is None or not bytes(message.error).startswith(b"{") or not is_text(body):
            return cls(NO_RAW, 0, body, ours=False, nobody=True)
        ours = number is not None and message.id in (number, str(number))
        fault = read_fault(message.error)
        raw = msgspec.Raw(bytes(message.error))
        return cls(raw, fault.code, fault.message.encode(), ours, nobody=message.id in _NOBODY)

    def tells_of_a_lost_session(self, status: int) -> bool:
        """Whether it does: the standard asks for 404, many servers say 400 and the reason in words.

        An error under our own number must say it in words with either status, for it may be a tool's.
        """
        in_words = self.code == _SESSION_NOT_FOUND or _LOST_SESSION.search(self.text) is not None
        match status:
            case HTTPStatus.NOT_FOUND:
                return in_words if self.ours else self.code != METHOD_NOT_FOUND
            case HTTPStatus.BAD_REQUEST:
                return in_words and (self.ours or self.nobody)
            case _:
                return False


async def _body(reply: Reply) -> bytes:
    try:
        return await reply.body(_SHOWN)
    except TooLong:
        return b""


def _pause(retry_after: str, *, now: float) -> float | None:
    """Seconds to wait by a `Retry-After` header, in either of its forms; None when there is none."""
    if retry_after.isdecimal():
        return min(float(retry_after[:9]), _LONGEST_PAUSE)
    try:
        until = email.utils.parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(until - now, 0.0), _LONGEST_PAUSE)
