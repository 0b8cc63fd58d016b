"""The desk of one server: which calls are sent now, which wait, and in what order.

A call is sent at once when the server is ready and has room. Otherwise it waits, in a bounded queue: while
the server is busy, and while it starts, wakes or backs off. Waiting clients take turns, so one that floods
the desk delays the others by one call and not by its queue, and when the queue is full it gives way to them.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable

import anyio
import msgspec
from msgspec import Struct

from supervisor.core.counters import UNKNOWN, CallTally
from supervisor.core.eras import CAPABILITIES
from supervisor.core.jsonrpc import UNREADABLE
from supervisor.core.latency import Latencies
from supervisor.core.turns import Turns
from supervisor.errors import Busy, Outcome, ServerUnavailable, SupervisorError
from supervisor.logs import about
from supervisor.runtime.calls import Call, Deadlines
from supervisor.runtime.session import Session
from supervisor.runtime.wire import NotSent, Wire

logger = logging.getLogger(__name__)

_TIMED_OUT = Outcome.TIMED_OUT
_LONGEST_PROGRESS = 64 * 1024
"""Bytes of a report on progress that are passed on; a longer one only counts as a sign of life."""
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Terms(Struct, frozen=True):
    """What a server's entry says about calls."""

    call_timeout: float = 60.0
    max_call_time: float = 3600.0
    max_concurrency: float = math.inf
    max_queue: int = 256


class ServerDesk:
    """Every call to one server."""

    def __init__(  # noqa: PLR0913 - each is one thing the desk is given, by name
        self,
        server: str,
        terms: Terms,
        deadlines: Deadlines,
        *,
        max_result_bytes: int,
        account: Callable[[Outcome], dict[str, object]],
        resolve: Callable[[Call], bytes | None],
        tally: CallTally | None = None,
    ) -> None:
        self.server, self.terms, self.max_result_bytes = server, terms, max_result_bytes
        self._account = account
        self._resolve = resolve
        """Finds the tool of a call that came before it was listed; None: another desk has the call now."""
        self._tally = CallTally() if tally is None else tally
        """What is counted beyond the life of this desk."""
        self.outcomes: Counter[str] = Counter()
        self.latencies = Latencies()
        self._deadlines, self._clock = deadlines, deadlines.clock
        self._wire: Wire | None = None
        """What leads to the server while it is ready."""
        self._latest: Wire | None = None
        """What led to it last; calls may linger on others."""
        self._stamp = b""
        """What the session puts into the `_meta` of every call."""
        self._stamped = b""
        """That, as it stands in a call of which the client has no `_meta` of its own."""
        self._closed: Callable[[], ServerUnavailable] | None = None
        self._away: tuple[float, Callable[[], ServerUnavailable]] | None = None
        """Until when the server is certainly not ready, and what to say to a call that has less time."""
        self._sent: set[Call] = set()
        self._waiting: Turns[Call] = Turns()
        self._tokens: dict[int, Call] = {}
        self._last_token = 0
        self._used_at = 0.0
        self.expired_at: float | None = None
        """When a call that the last run was sent ran out of time."""
        self._emptied: anyio.Event | None = None
        self._tells = logger.isEnabledFor(logging.DEBUG)
        """Whether the end of a call is worth a line in the log."""

    @property
    def pending(self) -> int:
        """Calls that have not ended, sent or not."""
        return len(self._sent) + self._waiting.count

    @property
    def queued(self) -> int:
        return self._waiting.count

    @property
    def oldest(self) -> float:
        """Seconds since the oldest call came that has not ended; 0 without any."""
        began = min((call.began for calls in (self._sent, self._waiting) for call in calls), default=None)
        return 0.0 if began is None else self._clock() - began

    @property
    def called_at(self) -> float | None:
        """When the oldest call came that the last run was sent and has not answered; None without one."""
        return min((call.began for call in self._sent if call.wire is self._latest), default=None)

    @property
    def used_at(self) -> float:
        """When the server was last needed: now, while calls are under way."""
        return self._clock() if self.pending else self._used_at

    def account(self, outcome: Outcome) -> dict[str, object]:
        """What is known of the server now, for the data of an error."""
        return self._account(outcome)

    # What the server's life means for its calls.

    def open(self, session: Session) -> None:
        """The server is ready: send what waits, as far as there is room."""
        self._tells = logger.isEnabledFor(logging.DEBUG)
        self._wire, self._closed, self._away, self._stamp = session.wire, None, None, session.stamp
        self._latest = session.wire
        self._stamped = b',"_meta":{%s}' % session.stamp if session.stamp else b""
        self._pump()

    def park(self, away: tuple[float, Callable[[], ServerUnavailable]] | None = None) -> None:
        """The server is not ready, but may be soon: let calls wait.

        When it is certainly `away` until some moment, those that have less time end at once, new ones too.
        """
        self._wire, self._closed, self._away = None, None, away
        if away is not None:
            self._turn_away(*away)

    def close(self, why: Callable[[], ServerUnavailable]) -> None:
        """The server will not be ready: end what waits, and refuse what comes."""
        self._wire, self._closed = None, why
        for call in self._waiting.clear():
            if not self._is_another_servers(call):
                call.fail(why())

    def _is_another_servers(self, call: Call) -> bool:
        """Whether a call whose tool nobody had listed is waiting elsewhere from now on."""
        try:
            return not call.tool_json and self._resolve(call) is None
        except SupervisorError:
            return False

    def _turn_away(self, until: float, why: Callable[[], ServerUnavailable]) -> None:
        for call in [call for call in self._waiting if call.deadline <= until]:
            self._waiting.remove(call.client, call)
            if not self._is_another_servers(call):
                call.fail(why())

    def release(self) -> list[Call]:
        """Let go of everything that waits, for another desk to adopt."""
        return self._waiting.clear()

    def hand_over(self, elsewhere: Callable[[Call], bool]) -> None:
        """Let calls go whose tool nobody had listed, and that can be sent elsewhere now."""
        for call in [call for call in self._waiting if not call.tool_json and elsewhere(call)]:
            self._waiting.remove(call.client, call)
            try:
                self._resolve(call)
            except SupervisorError as exc:
                call.fail(exc)

    def adopt(self, calls: Iterable[Call]) -> None:
        """Let calls wait here that waited for the server whose place this one takes."""
        for call in calls:
            call.move(self)
            self._waiting.add(call.client, call)
        if self._closed is not None:
            self.close(self._closed)
        elif self._away is not None:
            self._turn_away(*self._away)
        self._pump()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        while self.pending:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    # What clients do.

    def submit(self, call: Call) -> bool:
        """Send the call, or let it wait; tells whether it was sent.

        Raises:
            ServerUnavailable: the server cannot answer.
            Busy: too many calls wait already.
        """
        terms, timeout, wire = self.terms, call.request.timeout, self._wire
        call.began = began = self._clock()
        call.deadline = began + (terms.call_timeout if timeout is None else min(timeout, terms.max_call_time))
        if wire is None or self._waiting.count or len(self._sent) >= terms.max_concurrency or not wire.alive:
            self._queue(call)
            sent = False
        else:
            self._send(call, wire)
            sent = True
        self._deadlines.add(call)
        return sent

    def _queue(self, call: Call) -> None:
        if self._closed is not None:
            raise self._closed()
        until, why = self._away or (0.0, self._busy)
        if call.deadline <= until:
            raise why()
        if not self._waiting.count:
            for sent in self._sent:
                self._waiting.serve(sent.client)
        if self._waiting.count >= self.terms.max_queue:
            gives_way = self._waiting.gives_way(call.client)
            if gives_way is None:
                raise self._busy()
            gives_way.fail(self._busy())
        self._waiting.add(call.client, call)

    def _busy(self) -> Busy:
        most = self.terms.max_queue
        sentence = f"cannot queue more than {most} calls for server {self.server}; try again later"
        return Busy(sentence, **self.account(Outcome.NOT_SENT))

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Take note of a call's end, and let the next one go."""
        self._used_at = now = self._clock()
        self._deadlines.discard(call)
        try:
            self._sent.remove(call)
        except KeyError:
            self._waiting.remove(call.client, call)
        if call.token:
            self._tokens.pop(call.token, None)
        took = now - call.began
        self.outcomes[outcome] += 1
        self.latencies.add(took)
        self._tally.ended(call.request.name if call.tool_json else UNKNOWN, outcome, took, call.result_size)
        if outcome is _TIMED_OUT and call.wire is self._latest:
            self.expired_at = now
        if self._tells:
            self._tell(call, outcome, took)
        if self._waiting.count:
            self._pump()
        elif self._emptied is not None and not self._sent:
            self._emptied.set()

    def _tell(self, call: Call, outcome: Outcome, took: float) -> None:
        tool = call.request.name
        extra = about(self.server, tool=tool, outcome=outcome)
        logger.debug("%s: %s: %s after %.3f s", self.server, tool, outcome, took, extra=extra)

    def cut(self) -> None:
        """Take note of a result that was cut."""
        self._tally.truncated += 1

    def progressed(self, params: msgspec.Raw) -> None:
        """The server tells how far a call is: more time for it, and word to its client."""
        try:
            fields = _object.decode(params)
            token = msgspec.json.decode(fields.get("progressToken", b"null"))
        except UNREADABLE:
            return
        call = self._tokens.get(token) if isinstance(token, int) else None
        if call is not None:
            extended = min(self._clock() + self.terms.call_timeout, call.began + self.terms.max_call_time)
            call.deadline = max(call.deadline, extended)
            if len(params) <= _LONGEST_PROGRESS:
                call.progressed(fields)

    def _has_room(self) -> bool:
        return len(self._sent) < self.terms.max_concurrency

    def _pump(self) -> None:
        wire = self._wire
        while wire is not None and wire.alive and self._waiting.count and self._has_room():
            call = self._waiting.take()
            try:
                tool = call.tool_json or self._resolve(call)
                if tool is not None:
                    call.tool_json = tool
                    self._send(call, wire)
            except SupervisorError as exc:
                call.fail(exc)

    def _send(self, call: Call, wire: Wire) -> None:
        request, extra = call.request, self._stamped
        if request.meta or request.input_responses or request.request_state:
            extra = self._extra(call)
        self._sent.add(call)
        try:
            call.number = wire.call(call.tool_json, request.arguments, extra, call)
        except NotSent as exc:
            self._sent.discard(call)
            self._tokens.pop(call.token, None)
            sentence = f"cannot call server {self.server}: {exc}"
            raise ServerUnavailable(sentence, **self.account(Outcome.NOT_SENT)) from exc
        call.wire = wire

    def _extra(self, call: Call) -> bytes:
        """What the server gets beside the tool's name and the arguments: the client's payload as it came."""
        request, extra = call.request, self._stamped
        if request.meta:
            extra = b',"_meta":%s' % self._merged(call)
        if request.input_responses:
            extra += b',"inputResponses":%s' % request.input_responses
        if request.request_state:
            extra += b',"requestState":%s' % request.request_state
        return extra

    def _merged(self, call: Call) -> bytes:
        """The client's `_meta` with our stamp, and with a progress token of ours for the client's.

        What a client can do is its own to say: the server's questions come back to it in the result.
        """
        asked = _object.decode(call.request.meta)
        fields = asked | _object.decode(b"{%s}" % self._stamp)
        if CAPABILITIES in fields and CAPABILITIES in asked:
            fields[CAPABILITIES] = asked[CAPABILITIES]
        if (token := fields.get("progressToken")) is not None:
            self._last_token += 1
            call.client_token, call.token = token, self._last_token
            fields["progressToken"] = msgspec.Raw(b"%d" % self._last_token)
            self._tokens[self._last_token] = call
        return msgspec.json.encode(fields)
