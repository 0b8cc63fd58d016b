"""A child that is up, and the talk with it over its pipes.

Owns the wire, the session and the attachment of the pipes to the loop for one process. It reports what it
hears (tools, progress, `Opened`, `Lost`) and never signals or reaps: the process is the run's.
"""

import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import msgspec
from msgspec import Struct, field

from supervisor.core.eras import Protocol
from supervisor.core.framing import Framing
from supervisor.core.jsonrpc import Message
from supervisor.core.phases import End
from supervisor.core.ringlog import RingLog
from supervisor.logs import about
from supervisor.runtime.liveness import Vigil
from supervisor.runtime.pipes import ChildPipes, Ears, connected
from supervisor.runtime.process import Pipes
from supervisor.runtime.session import Limits, Session, SessionFailed, WireLost
from supervisor.runtime.wire import PipeWire

logger = logging.getLogger(__name__)

_LAST_WORDS = 2.0
"""Seconds for what a server wrote before it exited to be heard; only a very busy machine needs them."""
_SILENCE = 0.25
"""Seconds between the end of a pipe and the conclusion that the server is not just about to exit."""
_NOISE_SHOWN = 10
_SKIMMED = 512
"""Bytes that are kept of each piece of a flood on standard error."""
_REST = 0.05
"""Seconds between two listings that a server's changes call for, at least."""
_SHARE = 10
"""Or so many times what the listing took."""
_RETRY, _LONGEST_RETRY = 0.5, 30.0
"""Seconds until a listing that was lost on the way is tried again: first, and at most."""


class Dialect(Struct, frozen=True):
    """How to talk with this server."""

    protocol: Protocol = "auto"
    framing: Framing = "newline"
    max_line_bytes: int = 64 * 1024 * 1024
    limits: Limits = field(default_factory=Limits)
    roots: tuple[str, ...] | None = None
    """What the server is told to work in; None is nothing."""


class Listener(Struct, frozen=True):
    """Whom to tell what the server says, and who watches over it."""

    on_tools: Callable[[list[msgspec.Raw]], Awaitable[None]]
    on_progress: Callable[[msgspec.Raw], None]
    vigil: Vigil = field(default_factory=Vigil)
    """How closely the server is watched."""
    redact: Callable[[str], str] = str
    """Takes the server's secrets out of what it says, before anybody reads it."""


class Conversation:
    """The talk with one child, from the first byte to the last."""

    def __init__(self, server: str, dialect: Dialect, listener: Listener, log: RingLog) -> None:
        self._server, self._dialect, self._listener, self._log = server, dialect, listener, log
        self.wire = PipeWire(
            framing=dialect.framing,
            limit=dialect.max_line_bytes,
            on_message=self._on_message,
            on_noise=self._on_noise,
            on_broken=self._on_broken,
            on_first_word=lambda: self.mark("heard"),
        )
        self.session = Session(
            self.wire, dialect.protocol, dialect.limits, listener.on_progress, dialect.roots
        )
        self._pipes: ChildPipes | None = None
        self._exited = False
        """Whether there is nothing more to come than what is in the pipes."""
        self._broken = anyio.Event()
        self._why = ""
        self.noise = 0
        """Lines on standard output that were no message."""
        self.timeline: list[tuple[str, float]] = []
        """What happened during the start, and when."""

    @property
    def heard_at(self) -> float:
        """When the server last said anything, by the loop's clock."""
        return self.wire.heard_at

    @property
    def heard(self) -> bool:
        """Whether it has said anything at all."""
        return self.wire.heard_at > 0

    @property
    def sent(self) -> int:
        """Bytes of questions in the child's input; none, when one could not be put there."""
        return 0 if self._pipes is None or self._pipes.input.failed else self.wire.sent

    @contextlib.asynccontextmanager
    async def over(self, pipes: Pipes, *, since: float) -> AsyncGenerator[None]:
        """Talk over the pipes of a child that is there since then; they are closed on the way out.

        Whoever still waits is told.
        """
        ears = Ears(
            on_stdout=self.wire.feed,
            on_stderr=self._on_stderr,
            on_stdout_end=self._on_stdout_end,
            on_stdin_end=self._on_stdin_end,
            may_rest=lambda: not self._exited,
            awaited=lambda: self.wire.asked > self.session.subscribed,
        )
        async with connected(pipes, ears, untaken=self._dialect.max_line_bytes) as self._pipes:
            self.wire.attach(self._pipes.input, self._pipes.awake)
            self.timeline.append(("spawned", since))
            try:
                yield
            finally:
                self.wire.lose(End("the connection was closed"))
        self.wire.let_go()
        self._log.flush(now=time.time())

    def hang_up(self) -> None:
        """Close the server's standard input."""
        if self._pipes is not None:
            self._pipes.input.close()

    async def ended(self, end: End) -> None:
        """The process has exited: hear its last words, then tell everyone who waits."""
        self._exited = True
        self.wire.close(end)
        if self._pipes is not None:
            with anyio.move_on_after(_LAST_WORDS):
                await self._pipes.heard_out()
        self.wire.lose(end)

    async def broke(self) -> str:
        """Wait until a pipe is gone or cannot be followed, though the process may live; says why."""
        await self._broken.wait()
        await anyio.sleep(_SILENCE)
        self.wire.lose(End(self._why))
        return self._why

    async def open(self, *, probe: bool) -> None:
        """Greet the server and list its tools.

        Raises:
            SessionFailed, WireLost: see `Session`.
        """
        await self.session.negotiate(probe=probe)
        self.mark("greeted")
        await self._listener.on_tools(await self.session.list_tools())
        self.mark("listed")
        self.session.subscribe()

    async def follow_changes(self) -> None:
        """List anew whenever the server says so, until it is gone."""
        await follow_changes(self._server, self.session, self._listener.on_tools, self._listener.redact)

    def mark(self, what: str) -> None:
        self.timeline.append((what, time.time()))

    def _on_stderr(self, chunk: bytes, floods: bool) -> None:  # noqa: FBT001 - the pipe's signature
        """Keep what the server prints; a flood is skimmed, so that it is hardly held up by us."""
        lines = self._log.feed(chunk, now=time.time(), most=_SKIMMED if floods else None)
        if logger.isEnabledFor(logging.DEBUG):
            for line in lines:
                logger.debug("%s: stderr: %s", self._server, line.text, extra=about(self._server))

    def _on_stdout_end(self) -> None:
        self._on_broken("closed its standard output")

    def _on_stdin_end(self) -> None:
        self._on_broken("closed its standard input")

    def _on_broken(self, why: str) -> None:
        if not self._broken.is_set():
            self._why = why
            self._broken.set()

    def _on_message(self, message: Message) -> None:
        self.session.receive(message)

    def _on_noise(self, line: bytes) -> None:
        self.noise += 1
        if self.noise <= _NOISE_SHOWN:
            self._log.add_line(b"(on stdout, not MCP) " + line[:500], now=time.time())
        if self.noise == 1:
            said = "%s: writes lines to stdout that are not MCP; they are skipped"
            logger.warning(said, self._server, extra=about(self._server))


async def follow_changes(
    server: str,
    session: Session,
    on_tools: Callable[[list[msgspec.Raw]], Awaitable[None]],
    redact: Callable[[str], str],
) -> None:
    """List anew whenever the server says that its tools changed, one listing at a time, until it is gone.

    However often it says so, listing takes a small part of the time: each is followed by a rest.
    """
    delay = _RETRY
    again = False
    while session.wire.alive:
        if not again:
            await session.changed()
        began = anyio.current_time()
        again = not await _listed_anew(server, session, on_tools, redact)
        if again:
            await anyio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)
        else:
            delay = _RETRY
            await anyio.sleep(max(_REST, _SHARE * (anyio.current_time() - began)))


async def _listed_anew(
    server: str,
    session: Session,
    on_tools: Callable[[list[msgspec.Raw]], Awaitable[None]],
    redact: Callable[[str], str],
) -> bool:
    """List once; False when that was lost on the way, so that it should be tried again."""
    try:
        with anyio.fail_after(session.limits.listing):
            await on_tools(await session.list_tools())
    except WireLost as exc:
        # Over HTTP that is one request and not the server; a pipe is gone, and nobody asks it again.
        said = "%s: cannot list its tools now: %s"
        logger.debug(said, server, redact(str(exc)), extra=about(server))
        return False
    except SessionFailed as exc:
        said = "%s: keeping its old tool list: %s"
        logger.warning(said, server, redact(str(exc)), extra=about(server))
    except TimeoutError:
        said = "%s: keeping its old tool list: a new one did not come in time"
        logger.warning(said, server, extra=about(server))
    return True
