"""The talk with one HTTP server: greeting, listening, and looking after it when a request broke off.

Owns the wire and the session of one run. It keeps a stream open on which the server can speak, lists tools
anew when something may have been missed, and says once, through `over`, that the server is lost and why.
"""

import logging
import time
from typing import Literal

import anyio
import msgspec

from supervisor.core import eras, routing
from supervisor.core.jsonrpc import UNREADABLE, Message, read_fault
from supervisor.core.phases import End
from supervisor.core.ringlog import RingLog
from supervisor.errors import METHOD_NOT_FOUND, SupervisorError
from supervisor.logs import about
from supervisor.runtime.beside import beside
from supervisor.runtime.conversation import Dialect, Listener, follow_changes
from supervisor.runtime.httpdoor import CutOff
from supervisor.runtime.httpsessions import Sessions
from supervisor.runtime.httpstatus import Denied, Refusal, SessionGone
from supervisor.runtime.httpwire import Garbled, HttpWire
from supervisor.runtime.session import Session, SessionFailed, WireLost
from supervisor.runtime.wire import NotSent

logger = logging.getLogger(__name__)

_NOISE_SHOWN = 10
_LONGEST_PAUSE = 20.0
"""Seconds that a start waits for a server which asks to be let alone; for more, another run is better."""
_DELAY = 0.5
_LONGEST_DELAY = 30.0
_LASTING = 10.0
"""Seconds after which a stream that ends has been a good one."""
_PROOFS = 2
"""Requests in a row that must break off too before a server which broke one off is given up."""
_CHANGED = Message(method="notifications/tools/list_changed")
_TRY_LATER = (408, 409, 425)


class _Tool(msgspec.Struct):
    name: str = ""
    input_schema: object = msgspec.field(default=None, name="inputSchema")


class _Question:
    """A request of the talk's own, and how it ended."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.outcome: Literal["answered", "refused", "lost", "not sent"] = "not sent"
        self.code = 0

    def answered(self, result: msgspec.Raw) -> None:  # noqa: ARG002 - that there is one says it all
        self._end("answered")

    def refused(self, error: msgspec.Raw) -> None:
        self.code = read_fault(error).code
        self._end("refused")

    def unusable(self, problem: SupervisorError) -> None:
        self.code = problem.code
        self._end("refused")

    def lost(self, end: End) -> None:  # noqa: ARG002 - the wire tells why
        self._end("lost")

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:  # noqa: ARG002 - the wire keeps it
        self._end("not sent")

    def _end(self, outcome: Literal["answered", "refused", "lost", "not sent"]) -> None:
        self.outcome = outcome
        self.done.set()


class HttpTalk:
    """The talk with one server, from the first request to the last."""

    def __init__(
        self, server: str, dialect: Dialect, listener: Listener, log: RingLog, sessions: Sessions
    ) -> None:
        self._server, self._listener, self._log = server, listener, log
        self.wire = HttpWire(self, sessions, limit=dialect.max_line_bytes)
        self.session = Session(
            self.wire, dialect.protocol, dialect.limits, listener.on_progress, dialect.roots
        )
        self.end: End | None = None
        self._over = anyio.Event()
        self._doubted = anyio.Event()
        self.noise = 0
        """Messages that nobody could use."""
        self.timeline: list[tuple[str, float]] = []
        """What happened during the start, and when."""

    async def open(self, *, probe: bool) -> None:
        """Greet the server and list its tools; a server that asks for patience gets some.

        Raises:
            SessionFailed, WireLost: see `Session`.
        """
        while True:
            try:
                return await self._open(probe=probe)
            except WireLost:
                pause = self.wire.pause
                if not 0 < pause <= _LONGEST_PAUSE:
                    raise
                await anyio.sleep(pause)

    async def stay(self) -> None:
        """Follow what the server tells and look after it, until cancelled."""
        async with beside(self._look_after_it):
            await follow_changes(self._server, self.session, self._on_tools, self._listener.redact)

    async def over(self) -> End:
        """Wait until the talk is over, and say why."""
        await self._over.wait()
        assert self.end is not None
        return self.end

    # What the wire needs of its owner.

    @property
    def version(self) -> str:
        return self.session.version

    def receive(self, message: Message) -> None:
        if message.method == "notifications/subscriptions/acknowledged":
            self._on_listening()
        else:
            self.session.receive(message)

    def on_noise(self, line: bytes) -> None:
        self.noise += 1
        if self.noise <= _NOISE_SHOWN:
            self._log.add_line(b"(not MCP) " + line[:500], now=time.time())
        if self.noise == 1:
            said = "%s: sends messages that are not MCP, or that nobody asked for"
            logger.warning(said, self._server, extra=about(self._server))

    def fail(self, end: End) -> None:
        """The first reason counts."""
        if self.end is None:
            self.end = end
            self.wire.close(end)
            self._over.set()

    def doubt(self) -> None:
        self._doubted.set()

    async def renew(self) -> None:
        logger.info("%s: forgot the session; greeting it anew", self._server, extra=about(self._server))
        try:
            await self.session.negotiate(probe=False)
        except (SessionFailed, WireLost) as exc:
            self.fail(End(f"forgot the session, and no new one can be had: {exc}"))
            raise NotSent("forgot the session, and no new one can be had") from exc
        self.session.receive(_CHANGED)

    # The start.

    async def _open(self, *, probe: bool) -> None:
        self.mark("started")
        try:
            await self.session.negotiate(probe=probe)
        except WireLost:
            # Some servers hang up on a method that they do not know.
            if not probe or not self.wire.alive or self.wire.pause:
                raise
            await self.session.negotiate(probe=False)
        self.mark("greeted")
        await self._on_tools(await self.session.list_tools())
        self.mark("listed")

    def mark(self, what: str) -> None:
        self.timeline.append((what, time.time()))

    async def _on_tools(self, definitions: list[msgspec.Raw]) -> None:
        if self.session.modern:
            definitions = self._marked(definitions)
        await self._listener.on_tools(definitions)

    def _marked(self, definitions: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """The tools whose calls can be put into headers; learns which arguments go there."""
        kept: list[msgspec.Raw] = []
        marks: dict[str, dict[routing.Path, str]] = {}
        for definition in definitions:
            try:
                tool = msgspec.json.decode(definition, type=_Tool)
                marks[tool.name] = routing.marks(tool.input_schema)
            except routing.BadMark as exc:
                why = self._listener.redact(str(exc))
                logger.warning("%s: leaving out a tool: %s", self._server, why, extra=about(self._server))
                continue
            except UNREADABLE:
                pass  # whoever reads the whole definition says what is wrong with it
            kept.append(definition)
        self.wire.head.marks = marks
        return kept

    # The stream on which the server speaks of its own accord.

    async def listen(self) -> None:
        """Have the stream open, and open it again whenever it ends; when that is often, with delays."""
        delay = 0.0
        while self.wire.alive:
            began = anyio.current_time()
            again = await (self._subscribe() if self.session.modern else self._hear())
            if again is None:
                return
            if anyio.current_time() - began >= _LASTING:
                delay = 0.0
            await anyio.sleep(max(delay, again))
            delay = min(max(2 * delay, _DELAY), _LONGEST_DELAY)

    async def _hear(self) -> float | None:
        """Listen once; says after how many seconds to listen again, or None for never."""
        if not self.wire.head.session_id:
            return None
        try:
            await self.wire.hear(self._on_listening)
        except SessionGone:
            return await self._confirm_the_loss()
        except Refusal as exc:
            return None if exc.status < 500 and exc.status not in _TRY_LATER else _DELAY
        except CutOff:
            return 0.0
        except Garbled as exc:
            said = "%s: opening its stream again: %s"
            logger.warning(said, self._server, exc, extra=about(self._server))
            return _DELAY
        except Denied:
            return None
        except NotSent as exc:
            return exc.retry_after or _DELAY
        retry = self.wire.retry
        return _DELAY if retry is None else min(retry, _LONGEST_DELAY)

    async def _confirm_the_loss(self) -> float | None:
        """See whether the session is gone, or only has no stream: 404 is what many servers say to any GET.

        A request that meets the loss renews the session. Says when to listen again, as `_hear` does.
        """
        before = self.wire.head.session_id
        question = await self._ask("ping", self.session.stamped({}))
        if self.wire.head.session_id != before:
            return 0.0
        return None if question.outcome in ("answered", "refused") else _DELAY

    async def _subscribe(self) -> float | None:
        if not eras.announces_tool_changes(self.session.greeting):
            return None
        params = self.session.stamped({"notifications": {"toolsListChanged": True}})
        question = await self._ask("subscriptions/listen", params)
        match question.outcome:
            case "lost":
                return 0.0
            case "refused" if question.code == METHOD_NOT_FOUND:
                return None
            case _:
                return _DELAY

    def _on_listening(self) -> None:
        """The stream is open; what was said while it was not, since the first listing too, is learnt anew."""
        self.session.receive(_CHANGED)

    # Evidence that the server still lives.

    async def _look_after_it(self) -> None:
        """Whenever a request broke off, see whether another one gets through."""
        method = "server/discover" if self.session.modern else "ping"
        while True:
            await self._doubted.wait()
            for _ in range(_PROOFS):
                if (await self._ask(method, self.session.stamped({}))).outcome != "lost":
                    break
            else:
                self.fail(End(f"broke off {_PROOFS + 1} requests in a row"))
            self._doubted = anyio.Event()

    async def _ask(self, method: str, params: bytes) -> _Question:
        question = _Question()
        try:
            self.wire.request(method, params, question)
        except NotSent:
            return question
        await question.done.wait()
        return question
