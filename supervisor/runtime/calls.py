"""Tool calls under way: sent once, ended once, with a true account of what happened.

A `Call` waits at its server's desk until it may be sent, and then for the answer. It ends in exactly one
outcome, by the first of: the answer, the server's end, its deadline, its cancellation. It is never sent
again.
"""

import logging
import time
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Annotated, Protocol

import anyio
import anyio.lowlevel
import msgspec

from supervisor.core import results
from supervisor.core.jsonrpc import read_fault
from supervisor.core.phases import End
from supervisor.errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Cancelled,
    Outcome,
    ServerDied,
    ServerUnavailable,
    SupervisorError,
    TimedOut,
)
from supervisor.runtime.wire import Wire

logger = logging.getLogger(__name__)

_REJECTED = (INVALID_PARAMS, METHOD_NOT_FOUND)
_NOTHING = msgspec.Raw(b"")
_LATE = 0.05
"""Seconds after a deadline at which we noticed it too late to blame anybody at once."""
_TURNS = 3
"""Turns of the loop in which what has come is read, whichever loop it is."""
# Looking up a member of an enumeration takes a while, and this is looked up for every call.
_OK, _TOOL_ERROR = Outcome.OK, Outcome.TOOL_ERROR


class CallRequest(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """The params of `tools/call`: what the server gets, and what is for us."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    meta: msgspec.Raw = msgspec.field(default=_NOTHING, name="_meta")
    input_responses: msgspec.Raw = _NOTHING
    request_state: msgspec.Raw = _NOTHING
    agent: str | None = None
    tools: tuple[str, ...] | None = None
    approved: bool = False
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    flatten: bool = False


class Reply(Protocol):
    """Where the end of a call goes."""

    def result(self, raw: bytes | msgspec.Raw) -> None: ...

    def fault(self, raw: bytes | msgspec.Raw) -> None:
        """An error of the server's own, passed as it is."""
        ...

    def error(self, error: SupervisorError) -> None: ...

    def notify(self, method: str, params: bytes) -> None: ...


class Desk(Protocol):
    """Where a call waits, as far as the call needs it."""

    @property
    def server(self) -> str: ...

    @property
    def max_result_bytes(self) -> int: ...

    def ended(self, call: "Call", outcome: Outcome) -> None: ...

    def cut(self) -> None:
        """Called when an answer was too large and is passed on in part."""
        ...

    def account(self, outcome: Outcome) -> dict[str, object]:
        """What is known of the server now, for an error's data."""
        ...


class Call(msgspec.Struct, eq=False):
    """One tool call, from its admission to its outcome.

    A struct, because that is quicker to make than an object with a constructor in Python.
    """

    _desk: Desk
    request: CallRequest
    _reply: Reply
    client: Hashable
    tool_json: bytes = b""
    """The tool's own name as JSON; empty while it waits for its server to list it."""
    began: float = 0.0
    deadline: float = 0.0
    result_size: int | None = None
    """Bytes of what the server answered, before any cut; None without a result."""
    client_token: msgspec.Raw | None = None
    """Under which the client wants to hear of progress ..."""
    token: int = 0
    """... and under which its server tells of it; 0 when it is not asked to."""
    wire: Wire | None = None
    """Over which it was sent ..."""
    number: int = 0
    """... under this number."""
    _over: bool = False

    @property
    def server(self) -> str:
        """At whose desk it is."""
        return self._desk.server

    @property
    def sent(self) -> bool:
        return self.wire is not None

    # What ends it. Each of these is the last thing that happens to a call.

    def answered(self, result: msgspec.Raw) -> None:
        self._over = True
        self.result_size = size = len(result)
        desk, fitting = self._desk, result
        if size > desk.max_result_bytes:
            fitting = results.cap(result, desk.max_result_bytes)[0]
            desk.cut()
        # First the answer, then the books: the client reads while we write them.
        try:
            self._reply.result(results.flatten(fitting) if self.request.flatten else fitting)
        finally:
            desk.ended(self, _TOOL_ERROR if results.is_error(fitting) else _OK)

    def refused(self, error: msgspec.Raw) -> None:
        code = read_fault(error).code
        fitting = results.cap_fault(error, self._desk.max_result_bytes)
        if fitting is not error:
            self._desk.cut()
        self._end(Outcome.REJECTED if code in _REJECTED else Outcome.TOOL_ERROR)
        self._reply.fault(fitting)

    def unusable(self, problem: SupervisorError) -> None:
        # It may well have run: what it said is lost on the way to who asked.
        outcome = Outcome(problem.data.get("outcome", Outcome.UNKNOWN))
        sentence = f"cannot tell how {self.request.name} ended: {problem}"
        if outcome is Outcome.REJECTED:
            sentence = f"cannot call {self.request.name}: {problem}"
        self.fail(type(problem)(sentence, **self._desk.account(outcome)))

    def lost(self, end: End) -> None:
        # The server's phase is about to change, and which one follows is not known yet.
        data = self._desk.account(Outcome.UNKNOWN) | {"phase": None}
        data["exit"] = {"code": end.code, "signal": end.signal, "reason": end.detail, "at": time.time()}
        sentence = f"server {self._desk.server} {end.detail} before it answered"
        self.fail(ServerDied(f"cannot tell whether {self.request.name} ran: {sentence}", **data))

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:
        data = self._desk.account(Outcome.NOT_SENT)
        if retry_after is not None:
            data["retryAfter"] = retry_after
        self.fail(ServerUnavailable(f"cannot call server {self._desk.server}: it {detail}", **data))

    def move(self, desk: Desk) -> None:
        """Wait at the desk of another server, which may have another tool of that name."""
        self._desk, self.tool_json = desk, b""

    def expire(self, now: float) -> None:
        if self._over:
            return
        waited = f"{now - self.began:.1f} s"
        if not self._has_left():
            self._abandon("timed out")
            sentence = f"cannot wait any longer for {self.request.name}: not sent within {waited}"
            self.fail(TimedOut(sentence, **self._desk.account(Outcome.NOT_SENT)))
        else:
            sentence = f"cannot wait any longer for {self.request.name}: no answer within {waited}"
            self._abandon("timed out")
            self.fail(TimedOut(sentence, **self._desk.account(Outcome.TIMED_OUT)))

    def cancel(self, reason: str) -> None:
        if self._over:
            return
        self._abandon(reason)
        data = self._desk.account(Outcome.CANCELLED)
        self.fail(Cancelled(f"cannot answer {self.request.name}: {reason}", **data))

    def fail(self, error: SupervisorError) -> None:
        """End with this error, whose data says the outcome."""
        outcome = Outcome(error.data["outcome"])
        self._end(outcome)
        tell(self.request, self._reply, error)

    def progressed(self, params: dict[str, msgspec.Raw]) -> None:
        """Tell the client under its own token."""
        if self.client_token is not None:
            told = {**params, "progressToken": self.client_token}
            self._reply.notify("notifications/progress", msgspec.json.encode(told))

    def _end(self, outcome: Outcome) -> None:
        self._over = True
        self._desk.ended(self, outcome)

    def _has_left(self) -> bool:
        return self.wire is not None and self.wire.has_left(self.number)

    def _abandon(self, reason: str) -> None:
        left = self._has_left()
        if self.wire is not None and self.wire.forget(self.number) and left:
            params = {"requestId": self.number, "reason": reason}
            self.wire.notify("notifications/cancelled", msgspec.json.encode(params))


def tell(request: CallRequest, reply: Reply, error: SupervisorError) -> None:
    """Say why there is no result, in the form that was asked for."""
    if request.flatten and isinstance(error, ServerUnavailable | ServerDied):
        reply.result(results.unreachable(str(error)))
    else:
        reply.error(error)


class Deadlines:
    """Ends calls whose time is over; one task for all of them, and no timer per call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        """The loop's clock, without the price of asking the loop for it."""
        self._calls: set[Call] = set()
        self.discard = self._calls.discard
        """Takes a call that has ended from the list."""
        self._wake = anyio.Event()
        self._due = float("inf")
        """When the task looks next."""

    def add(self, call: Call) -> None:
        self._calls.add(call)
        if call.deadline < self._due:
            self._due = call.deadline
            self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            self._wake = anyio.Event()
            with anyio.move_on_after(self._due - self.clock()):
                await self._wake.wait()
            if self.clock() - self._due > _LATE:
                # Everything stood still, and answers that came in time have not been read yet.
                for _ in range(_TURNS):
                    await anyio.lowlevel.checkpoint()
            self._look(self.clock())

    def _look(self, now: float) -> None:
        due = [call for call in self._calls if call.deadline <= now]
        # Those in a queue first, or the end of one that was sent would send the next.
        for call in sorted(due, key=attrgetter("sent")):
            call.expire(now)
        self._due = min((call.deadline for call in self._calls), default=float("inf"))
