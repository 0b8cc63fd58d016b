"""How messages travel over HTTP: posts, the streams that answer them, and the stream the server speaks on.

A letter is a request under way. What comes in answer to it is handed, message by message and in order, to
whoever wrote it. A stream that broke off before the answer is resumed where the server allows that. Who
waits for what, and what a failure means for others, is the wire's.
"""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from supervisor.core.jsonrpc import request_line
from supervisor.core.letterhead import SESSION, Letterhead
from supervisor.core.sse import EventParser
from supervisor.runtime.httpdoor import CutOff, Door, Reply, Sending
from supervisor.runtime.httpstatus import Refusal, failure
from supervisor.runtime.wire import NotSent, one_line

logger = logging.getLogger(__name__)

_RESUMPTIONS = 3
"""How often a stream is resumed in vain."""
_DELAY = 1.0
_LONGEST_DELAY = 30.0
_TURN = 64
"""Events that are taken in one go ..."""
_BREATH = 0.001
"""... and seconds until the next ones."""
_SUBSCRIPTION = "subscriptions/listen"
_EVENTS = "text/event-stream"


@dataclass(slots=True, eq=False)
class Letter:
    """A request, and who takes the messages that come in answer to it."""

    number: int
    method: str
    params: bytes
    take: Callable[[bytes], None]
    answered: bool = False
    sending: Sending = field(default_factory=Sending)


class NotResumed(CutOff):
    """An answer broke off and cannot be had any more; the cause says why."""


class Mail:
    """The traffic of one conversation through a door."""

    def __init__(self, door: Door, head: Letterhead, limit: int) -> None:
        self._door, self._head, self._limit = door, head, limit
        self._hearing = anyio.CancelScope()
        self.patience = door.patience
        self.heard = EventParser(limit)
        """What is known of the stream on which the server speaks of its own accord."""

    async def post(self, letter: Letter) -> None:
        """Post a request and pass on what comes back, until the answer has come or none can come.

        Raises:
            NotSent, CutOff, Refusal, TooLong: there is no answer but this.
            InvalidParams: it cannot be written, and was not sent.
        """
        events = EventParser(self._limit)
        try:
            await self._exchange(letter, events)
        except CutOff:
            if not self._may_resume(letter, events):
                raise
        if self._may_resume(letter, events):
            await self._resume(letter, events)

    async def post_aside(self, line: bytes) -> None:
        """Post what has no answer.

        Raises:
            NotSent, CutOff, Refusal: the server does not have it, or nobody knows.
        """
        headers = self._head.plain()
        async with self._door.exchange("POST", headers, line, wait=self.patience.answer, idle=None) as reply:
            if not reply.is_success:
                raise await failure(reply, in_session=SESSION in headers)

    async def hear(self, take: Callable[[bytes], None], on_open: Callable[[], None]) -> None:
        """Listen to what the server says of its own accord; returns at the end of the stream or the session.

        Raises:
            NotSent, CutOff, Refusal: the stream could not be opened, or broke off.
        """
        with anyio.CancelScope() as self._hearing:
            await self._listen(self.heard, take, on_open)

    def adopt(self, session_id: str) -> None:
        """Go on in this session; what was heard in another one is void."""
        if session_id != self._head.session_id:
            self._head.session_id, self.heard = session_id, EventParser(self._limit)
            self._hearing.cancel()

    async def farewell(self, session_id: str) -> None:
        """End a session, if the server lets us within the time we give it."""
        if not session_id:
            return
        headers = self._head.plain() | {SESSION: session_id}
        with anyio.move_on_after(self.patience.farewell), contextlib.suppress(NotSent, CutOff):
            async with self._door.exchange("DELETE", headers, wait=None, idle=None) as reply:
                logger.debug("the session was ended with %s", reply.line)

    async def _exchange(self, letter: Letter, events: EventParser) -> None:
        headers = self._head.request(letter.method, letter.params)
        line = request_line(letter.number, letter.method, letter.params)
        lasting = letter.method == _SUBSCRIPTION
        wait, idle = (self.patience.answer, self.patience.idle) if lasting else (None, None)
        sending = letter.sending
        async with self._door.exchange("POST", headers, line, wait=wait, idle=idle, sending=sending) as reply:
            if not reply.is_success:
                in_session = SESSION in headers
                raise await failure(reply, in_session=in_session, method=letter.method, number=letter.number)
            if letter.method == "initialize":
                self.adopt(reply.header(SESSION))
            match reply.media_type:
                case "application/json":
                    letter.take(one_line(await reply.body()))
                case "text/event-stream":
                    await self._read(reply, events, letter.take)
                case other:
                    raise CutOff(f"answered {reply.line} with {other[:80] or 'nothing'}, which is not MCP")

    def _may_resume(self, letter: Letter, events: EventParser) -> bool:
        return bool(events.last_id) and not letter.answered and not self._head.is_modern

    async def _resume(self, letter: Letter, events: EventParser) -> None:
        """Go on listening for the answer on a stream of its own, as long as that brings anything."""
        left = _RESUMPTIONS
        while left and not letter.answered:
            before = events.last_id
            await anyio.sleep(min(_DELAY if events.retry is None else events.retry, _LONGEST_DELAY))
            try:
                await self._listen(events, letter.take, lambda: None)
            except (NotSent, Refusal) as exc:
                # The request itself did leave, so this must not look as if it had not.
                raise NotResumed(f"broke its answer off and does not resume it ({exc})") from exc
            except CutOff as exc:
                logger.debug("a resumed stream broke off: %s", exc)
            left = _RESUMPTIONS if events.last_id != before else left - 1

    async def _listen(
        self, events: EventParser, take: Callable[[bytes], None], on_open: Callable[[], None]
    ) -> None:
        headers = self._head.plain()
        if events.last_id:
            headers["last-event-id"] = events.last_id
        events.restart()
        wait, idle = self.patience.answer, self.patience.idle
        async with self._door.exchange("GET", headers, wait=wait, idle=idle) as reply:
            if not reply.is_success or reply.media_type != _EVENTS:
                raise await failure(reply, in_session=SESSION in headers)
            on_open()
            await self._read(reply, events, take)

    async def _read(self, reply: Reply, events: EventParser, take: Callable[[bytes], None]) -> None:
        async with contextlib.aclosing(reply.chunks()) as chunks:
            async for chunk in chunks:
                for count, event in enumerate(events.feed(chunk), 1):
                    if event.kind == "message":
                        take(one_line(event.data))
                    if count % _TURN == 0:
                        # Whoever floods us is heard at this pace, and everybody else goes on meanwhile.
                        await anyio.sleep(_BREATH)
