"""What an HTTP status means for the request that met it: refused, not looked at, or nobody knows.

The difference matters: only what was certainly not looked at may be asked again.
"""

import email.utils
import time
from http import HTTPStatus

import msgspec

from supervisor.core.framing import TooLong
from supervisor.core.jsonrpc import read_message
from supervisor.errors import BadAnswer, InvalidRequest, Outcome, SupervisorError
from supervisor.runtime.httpdoor import CutOff, Reply
from supervisor.runtime.wire import NotSent

_LONGEST_PAUSE = 300.0
_SHOWN = 64 * 1024
"""Bytes of an error's body that are looked at."""
_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class Refusal(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, error: msgspec.Raw) -> None:
        super().__init__(f"refused with HTTP {status}")
        self.error, self.status = error, status


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


async def failure(reply: Reply, method: str, *, in_session: bool) -> Exception:
    """What to raise for an answer that is not a success.

    Raises:
        CutOff: the answer broke off.
    """
    if reply.status == HTTPStatus.UNAUTHORIZED or (
        # Who may list tools may still be denied one of them.
        reply.status == HTTPStatus.FORBIDDEN and method != "tools/call"
    ):
        return Denied(f"needs credentials: it answered {reply.line}")
    pause = _pause(reply.header("retry-after"), now=time.time())
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS or (
        reply.status == HTTPStatus.SERVICE_UNAVAILABLE and pause is not None
    ):
        pause = 1.0 if pause is None else pause
        return Paused(f"answered {reply.line} and asks to be let alone for {pause:.0f} s", pause)
    return _refusal(reply, await _body(reply), in_session=in_session)


def _refusal(reply: Reply, body: bytes, *, in_session: bool) -> Exception:
    message = read_message(body)
    error = message.error if message is not None else b""
    if in_session and _forgot_the_session(reply.status, body):
        return SessionGone(reply.status, f"{reply.line}: it has forgotten the session")
    if error:
        return Refusal(reply.status, msgspec.Raw(error))
    if reply.status in _GATEWAY:
        return CutOff(f"was cut off by {reply.line}")
    return BareRefusal(reply.status, reply.line)


def _forgot_the_session(status: int, body: bytes) -> bool:
    """The standard asks for 404, but many servers say 400 and put the reason in words."""
    return status == HTTPStatus.NOT_FOUND or (status == HTTPStatus.BAD_REQUEST and b"session" in body.lower())


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
