"""Raw JSON-RPC to one server over HTTP: who waits for which answer, and what each is told.

A request that fails ends alone, and whoever waits for it is told one thing, once: the answer, a refusal,
that nothing was sent, or that nobody can know. The wire finds a new session when the server forgot the old
one, and lets the server alone for as long as it asks. Which requests to make, when to listen, and when to
give a server up is its owner's.
"""

import contextlib
import functools
import logging
import operator
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field

import anyio
import msgspec

from supervisor.core import eras
from supervisor.core.framing import TooLong
from supervisor.core.jsonrpc import Message, notification_line, read_fault, read_message
from supervisor.core.labour import PATIENCE_WITH_SERVERS, weighed
from supervisor.core.letterhead import Letterhead
from supervisor.core.phases import End
from supervisor.errors import InvalidParams, SupervisorError, TooLarge
from supervisor.runtime.beside import Company, company
from supervisor.runtime.httpanswers import Answers
from supervisor.runtime.httpdoor import CutOff, Door, Unreachable
from supervisor.runtime.httpmail import Letter, Mail, NotResumed
from supervisor.runtime.httpowner import NOBODY, Owner
from supervisor.runtime.httprenewal import Renewal
from supervisor.runtime.httpsessions import Sessions
from supervisor.runtime.httpstatus import BareRefusal, Denied, Paused, Refusal, SessionGone
from supervisor.runtime.wire import NotSent, Waiting, deliver, is_text

logger = logging.getLogger(__name__)

_HEADER_MISMATCH = -32020
_NEGOTIATION = ("server/discover", "initialize")
_CALL = "tools/call"
_UNBOUNDED = (_CALL, "subscriptions/listen")
"""These last as long as they last: a call has a deadline of its own, and a subscription is meant to stay."""
_LONGEST_PAUSE = 300.0
"""Seconds; the one call that was refused may have asked for much, but the others must not wait as long."""
_TAIL = 0.5
"""Seconds for a stream to end after its answer; one that is read to the end leaves its connection usable."""


class Garbled(Exception):
    """The server's own stream brought what cannot be taken."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A request under way, and who waits for its answer."""

    letter: Letter
    waiting: Waiting
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True, eq=False)
class _Traffic:
    """What goes through the door, while it is open."""

    mail: Mail
    tasks: Company
    answers: Answers
    renewal: Renewal


class HttpWire:
    """The requests under way with one HTTP server."""

    def __init__(self, owner: Owner, sessions: Sessions, *, limit: int) -> None:
        self._owner, self._sessions, self._limit = owner, sessions, limit
        self.head = Letterhead(lambda: owner.version)
        self._traffic: _Traffic | None = None
        self._under_way: dict[int, _Asked] = {}
        self._number = 0
        self._end: End | None = None
        self._carries = True
        """Whether what goes beside requests is sent: as long as one may be under way."""
        self._beside = 0
        """Notifications under way."""
        self._taken = anyio.Event()
        self._greeted = anyio.Event()
        self._greeted.set()
        self._paused_until = self._asked_until = 0.0
        self.heard_at = 0.0
        """When the server last said anything, by the loop's clock."""

    @contextlib.asynccontextmanager
    async def through(self, door: Door) -> AsyncGenerator[None]:
        """Carry requests through this door; whoever still waits on the way out is told."""
        async with company() as tasks:
            renewal = Renewal(self.head, self._owner.renew, self._end_session)
            mail = Mail(door, self.head, self._limit)
            self._traffic = _Traffic(mail, tasks, Answers(self._deliver), renewal)
            try:
                yield
            finally:
                self.lose(End("was closed"))

    def let_go(self) -> None:
        """Nothing more will come: forget who is to be told and what works for us, as they hold us."""
        self.head.keep_version()
        self._traffic, self._owner = None, NOBODY

    @property
    def alive(self) -> bool:
        return self._end is None

    @property
    def pause(self) -> float:
        """Seconds for which no request is made, because the server asks to be let alone."""
        return round(max(self._paused_until - anyio.current_time(), 0.0), 3)

    @property
    def asked_pause(self) -> float | None:
        """Seconds for which the server asked to be let alone, however long; None when it did not."""
        seconds = self._asked_until - anyio.current_time()
        return seconds if seconds > 0 else None

    @property
    def retry(self) -> float | None:
        """Seconds that the server asks to wait before its own stream is opened again."""
        return None if self._traffic is None else self._traffic.mail.heard.retry

    # What a session does with it.

    def request(self, method: str, params: bytes, waiting: Waiting) -> int:
        traffic = self._open()
        self._number = number = self._number + 1
        letter = Letter(number, method, params, functools.partial(self._receive, number))
        self._under_way[number] = asked = _Asked(letter, waiting)
        traffic.tasks.start_soon(self._carry, traffic, asked)
        return number

    def call(self, tool_json: bytes, arguments: msgspec.Raw, extra: bytes, waiting: Waiting) -> int:
        params = b'{"name":%s,"arguments":%s%s}' % (tool_json, arguments, extra)
        return self.request(_CALL, params, waiting)

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification; the modern era has none, and takes a closed stream for a cancellation."""
        if not self.head.is_modern:
            greeted = anyio.Event()
            if method == "notifications/initialized":
                self._greeted = greeted
            if self._carries and self._traffic is not None:
                self._beside += 1
                self._traffic.tasks.start_soon(self._notify, notification_line(method, params), greeted)

    def answer(self, line: bytes) -> None:
        if self._carries and self._traffic is not None:
            self._traffic.answers.add(line, self._traffic.tasks)

    def has_left(self, number: int) -> bool:
        asked = self._under_way.get(number)
        return asked is None or asked.letter.sending.left

    def forget(self, number: int) -> bool:
        asked = self._take(number)
        if asked is None:
            return False
        asked.scope.cancel()
        return True

    # What its owner does with it.

    def close(self, end: End) -> None:
        """Take no more requests; those under way go on, with what belongs to them."""
        self._end = self._end or end

    def lose(self, end: End) -> None:
        """End everything that is under way."""
        self.close(end)
        self._carries = False
        self._drop(list(self._under_way.values()), end)

    def _drop(self, requests: Iterable[_Asked], end: End) -> None:
        for asked in requests:
            asked.scope.cancel()
            if asked.letter.sending.left:
                self._finish(asked, lambda waiting: waiting.lost(end))
            else:
                self._finish(asked, lambda waiting: waiting.not_sent(end.detail))

    async def drained(self, end: End) -> None:
        """Wait until no call is under way, and nothing that goes with it; what is ours ends at once."""
        self._drop([each for each in self._under_way.values() if each.letter.method != _CALL], end)
        while self._under_way:
            await self._something_ends()
        assert self._traffic is not None
        with anyio.move_on_after(self._traffic.mail.patience.farewell):
            while self._beside:
                await self._something_ends()

    async def _something_ends(self) -> None:
        self._taken = anyio.Event()
        await self._taken.wait()

    async def hear(self, on_open: Callable[[], None]) -> None:
        """Listen to what a server of the handshake era says of its own accord; returns when that has ended.

        Raises:
            Refusal: the server has no such stream, or says that it has forgotten the session.
            NotSent, CutOff: the stream could not be opened, or broke off.
            Garbled: it cannot be followed any further.
        """
        mail = self._open().mail
        try:
            await mail.hear(functools.partial(self._receive, 0), on_open)
        except Unreachable as exc:
            self._note(exc)
            raise
        except TooLong as exc:
            raise Garbled(f"{exc} (maxLineBytes)") from exc
        except (NotSent, CutOff, Refusal):
            raise  # and says nothing of the requests: many servers and gateways let a stream pass less easily
        except Exception as exc:
            # A stream must not take the run with it, whatever a server made of it.
            logger.exception("a stream failed in a way nobody thought of")
            raise Garbled(f"sent what cannot be understood ({type(exc).__name__})") from exc

    async def farewell(self) -> None:
        """End the session."""
        await self._end_session(self.head.session_id)

    async def _end_session(self, session: str) -> None:
        if self._traffic is not None and not self._sessions.needs(session, besides=self.head):
            await self._traffic.mail.farewell(session)

    # One request.

    async def _carry(self, traffic: _Traffic, asked: _Asked) -> None:
        """See a request through to the one thing that its asker is told."""
        with asked.scope:
            try:
                await self._see_through(traffic, asked.letter)
            except BareRefusal as exc:
                self._cannot_use(asked, exc.problem)
            except Refusal as exc:
                self._heed(asked, exc.error)
                if exc.session_doubtful:
                    self._owner.doubt()
                self._finish(asked, operator.methodcaller("refused", exc.error))
            except InvalidParams as exc:
                self._cannot_use(asked, exc)
            except TooLong as exc:
                self._cannot_use(asked, TooLarge(f"{exc} (maxLineBytes)"))
            except NotSent as exc:
                self._note(exc)
                self._finish(asked, functools.partial(_tell_not_sent, exc))
            except CutOff as exc:
                self._note(exc)
                self._break_off(asked, End(str(exc)))
            except Exception as exc:
                # One request must not take the others with it, whatever a server made of it.
                logger.exception("a request failed in a way nobody thought of")
                self._break_off(asked, End(f"sent what cannot be understood ({type(exc).__name__})"))

    async def _see_through(self, traffic: _Traffic, letter: Letter) -> None:
        if pause := self.pause:
            raise NotSent(f"asks to be let alone for {pause:.0f} s", pause)
        bound = None if letter.method in _UNBOUNDED else traffic.mail.patience.answer
        try:
            with anyio.fail_after(bound):
                await self._post_in_session(traffic, letter)
        except TimeoutError:
            raise CutOff(f"did not answer {letter.method} within {bound:g} s") from None
        if not letter.answered:
            raise CutOff("ended its answer without an answer in it")

    async def _post_in_session(self, traffic: _Traffic, letter: Letter) -> None:
        """Post, and once more when the session was gone, for then nobody looked at the request."""
        if letter.method != "initialize":
            await traffic.renewal.settled()
            await self._greeted.wait()
        session = self.head.session_id
        try:
            await traffic.mail.post(letter)
        except SessionGone:
            letter.sending.left = False
            await traffic.renewal.instead_of(session, traffic.tasks)
            await self._greeted.wait()
            try:
                await traffic.mail.post(letter)
            except SessionGone as exc:
                raise NotSent("forgot the session, and the new one too") from exc

    def _receive(self, number: int, line: bytes) -> None:
        """Take a message that came in answer to this request; an answer to another has no business there."""
        self.heard_at = anyio.current_time()
        line = weighed(line, PATIENCE_WITH_SERVERS)
        message = read_message(line)
        if message is None or (message.method is not None and not is_text(line)):
            self._owner.on_noise(line)
        elif message.method is not None:
            self._owner.receive(message)
        elif type(message.id) is int and message.id == number and (asked := self._under_way.get(number)):
            asked.scope.deadline = anyio.current_time() + _TAIL
            self._heed(asked, message.error)
            self._finish(asked, functools.partial(deliver, line, message))
        else:
            self._owner.on_noise(line)

    # What goes beside the requests.

    async def _notify(self, line: bytes, delivered: anyio.Event) -> None:
        """Post a notification; sets `delivered` when the server has it, or cannot have it."""
        try:
            await self._deliver(line)
        finally:
            self._beside -= 1
            self._taken.set()
            delivered.set()

    async def _deliver(self, line: bytes) -> None:
        """Post what has no answer."""
        assert self._traffic is not None
        try:
            await self._traffic.mail.post_aside(line)
        except (NotSent, CutOff, Refusal) as exc:
            self._note(exc)

    # What is known, and what follows.

    def _open(self) -> _Traffic:
        if self._end is not None:
            raise NotSent(f"it {self._end.detail}")
        if self._traffic is None:
            raise NotSent("it is not connected yet")
        return self._traffic

    def _take(self, number: int) -> _Asked | None:
        asked = self._under_way.pop(number, None)
        if asked is not None:
            asked.letter.answered = True
            self._taken.set()
        return asked

    def _finish(self, asked: _Asked, tell: Callable[[Waiting], None]) -> None:
        """Tell whoever asked, unless that was done or is no longer wanted."""
        if self._take(asked.letter.number) is not None:
            tell(asked.waiting)

    def _cannot_use(self, asked: _Asked, problem: SupervisorError) -> None:
        self._finish(asked, lambda waiting: waiting.unusable(problem))

    def _break_off(self, asked: _Asked, end: End) -> None:
        if not asked.letter.answered:
            self._owner.doubt()
        self._finish(asked, lambda waiting: waiting.lost(end))

    def _heed(self, asked: _Asked, error: msgspec.Raw) -> None:
        """Draw the conclusions that an error asks for beside its own request."""
        if not error or asked.letter.method in _NEGOTIATION:
            return
        code = read_fault(error).code
        if code == eras.UNSUPPORTED_VERSION:
            self._owner.fail(End(f"no longer speaks {self._owner.version}"))
        elif code == _HEADER_MISMATCH:
            # We put arguments into headers by a schema that is no longer true.
            self._owner.receive(Message(method="notifications/tools/list_changed"))

    def _note(self, failed: Exception) -> None:
        """Draw the conclusions that a failure asks for beside its own request."""
        match failed:
            case Unreachable():
                self._owner.fail(End(str(failed)))
            case Denied():
                self._owner.fail(End(str(failed), hopeless=True))
            case Paused():
                now = anyio.current_time()
                self._asked_until = now + failed.seconds
                self._paused_until = now + min(failed.seconds, _LONGEST_PAUSE)
            case NotResumed(__cause__=Unreachable() as cause):
                self._note(cause)
            case _:
                logger.debug("nothing follows from: %s", failed)


def _tell_not_sent(exc: NotSent, waiting: Waiting) -> None:
    waiting.not_sent(str(exc), exc.retry_after)
