"""A conversation with one server on any wire: era, tools, and what the server asks of us.

Negotiation is written once for both eras. `server/discover` goes first; a server that refuses it is greeted
with `initialize`, one that stays silent too, on the same wire, and whichever answers first decides. Every
wait in here is bounded by the run's start deadline or by a deadline of its own.
"""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec

from supervisor import __version__
from supervisor.core import eras
from supervisor.core.eras import Greeting, Protocol
from supervisor.core.jsonrpc import UNREADABLE, Fault, Message, error_line, read_fault, result_line
from supervisor.core.phases import End
from supervisor.errors import METHOD_NOT_FOUND, SupervisorError
from supervisor.runtime.wire import NotSent, Waiting, Wire

logger = logging.getLogger(__name__)

CLIENT_INFO = {"name": "mcp-supervisor", "version": __version__}

_STAMP = eras.identity_stamp(CLIENT_INFO)
_NOT_A_SERVER = ("server/discover", "initialize")


class SessionFailed(Exception):
    """The server cannot be talked with; the message says why."""


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.message or 'no message'} ({fault.code})")
        self.fault = fault


class WireLost(Exception):
    """The server was gone before it answered."""


def _no_news() -> None:
    """What comes of an answer that has come."""


class _Ask:
    """One awaited answer."""

    def __init__(self, news: Callable[[], None]) -> None:
        self.done = anyio.Event()
        self._news = news
        self.number = 0
        """Under which it was sent."""
        self._result: msgspec.Raw | None = None
        self._problem: Callable[[], Exception] | None = None
        """Makes what is raised: an exception that was raised and kept holds us by its frames."""

    def answered(self, result: msgspec.Raw) -> None:
        self._result = result
        self._end()

    def refused(self, error: msgspec.Raw) -> None:
        self._problem = functools.partial(Refused, read_fault(error))
        self._end()

    def unusable(self, problem: SupervisorError) -> None:
        self._problem = functools.partial(Refused, Fault(code=problem.code, message=str(problem)))
        self._end()

    def lost(self, end: End) -> None:
        self._problem = functools.partial(WireLost, end.detail)
        self._end()

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:  # noqa: ARG002 - the wire keeps it
        self.lost(End(detail))

    def _end(self) -> None:
        self.done.set()
        self._news()
        self._news = _no_news  # who wants the news holds us, too

    @property
    def result(self) -> msgspec.Raw:
        """The answer that has arrived.

        Raises:
            Refused, WireLost: there is no answer but this.
        """
        if self._problem is not None:
            raise self._problem()
        assert self._result is not None
        return self._result


class _Page(msgspec.Struct):
    tools: list[msgspec.Raw]
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")


class Limits(msgspec.Struct, frozen=True):
    probe: float = 5.0
    """Seconds that a server has for `server/discover` before `initialize` is tried beside it."""
    pages: int = 1000
    tools: int = 10_000
    list_bytes: int = 16 * 1024 * 1024
    """Of all pages of a tool list together."""
    listing: float = 30.0
    """Seconds that listing anew may take."""


@dataclass(slots=True)
class Session:
    """What is known of a server, and how to speak to it."""

    wire: Wire
    protocol: Protocol = "auto"
    limits: Limits = field(default_factory=Limits)
    on_progress: Callable[[msgspec.Raw], None] = lambda _params: None
    roots: tuple[str, ...] | None = None
    """What the server is told to work in when it asks; None when that is not for it to ask."""
    version: str = ""
    greeting: Greeting = field(default_factory=Greeting)
    probe_ignored: bool = False
    """The server never answered `server/discover`, so next time it is not asked."""
    _stale: anyio.Event = field(default_factory=anyio.Event)
    _news: anyio.Event = field(default_factory=anyio.Event)
    """Set when an answer has come, or an echo."""
    _echo: bool = False
    """Whether it has sent back what it was sent."""
    _subscription: _Ask | None = None

    @property
    def modern(self) -> bool:
        return self.version == eras.MODERN

    @property
    def stamp(self) -> bytes:
        """What goes into the `_meta` of every request, without braces; empty in the handshake era."""
        return _STAMP if self.modern else b""

    async def negotiate(self, *, probe: bool) -> None:
        """Agree on a protocol version; without `probe` the handshake is tried at once.

        Raises:
            SessionFailed: no version is common, or what answers is no MCP server.
            WireLost: the server ended meanwhile.
        """
        try:
            if self.protocol == eras.MODERN:
                await self._adopt(self._discover())
            elif self.protocol == eras.LATEST_HANDSHAKE:
                await self._shake_hands(self._initialize())
            elif not probe:
                await self._greet_as_before()
            else:
                await self._find_the_era()
        except Refused as exc:
            raise SessionFailed(f"the server refused the handshake: {exc}") from exc
        except UNREADABLE as exc:
            raise SessionFailed(f"the server's greeting cannot be read: {exc}") from exc

    async def _greet_as_before(self) -> None:
        """Shake hands; a server that refuses may have become another since it was last asked for its era."""
        try:
            await self._shake_hands(self._initialize())
        except Refused as refusal:
            if self.version:  # the same server, which only has to renew its session
                raise
            discover = self._discover()
            with anyio.move_on_after(self.limits.probe):
                await self._first(discover)
            if not discover.done.is_set():
                raise
            try:
                greeting = eras.read_greeting(discover.result)
            except (Refused, WireLost, msgspec.DecodeError):
                raise refusal from None
            if eras.MODERN not in greeting.supported_versions:
                raise
            self.version, self.greeting = eras.MODERN, greeting

    async def _find_the_era(self) -> None:
        discover = self._discover()
        with anyio.move_on_after(self.limits.probe):
            await self._first(discover)
        if discover.done.is_set():
            await self._settle(discover)
            return
        initialize = self._initialize()
        await self._first(discover, initialize)
        if discover.done.is_set():
            await self._settle(discover, initialize)
            return
        self.probe_ignored = True
        await self._shake_hands(initialize)

    async def takes_a_probe(self) -> bool:
        """Ask whether a server that once ignored `server/discover` has come to answer it, beside all else."""
        discover = self._discover()
        with anyio.move_on_after(self.limits.probe):
            await discover.done.wait()
        if not discover.done.is_set():
            self.wire.forget(discover.number)
            return False
        try:
            return eras.MODERN in eras.read_greeting(discover.result).supported_versions
        except (Refused, WireLost, msgspec.DecodeError):
            return False  # one that refuses it after a handshake may still ignore it before

    async def _settle(self, discover: _Ask, initialize: _Ask | None = None) -> None:
        """Go on from the answer to `server/discover`."""
        try:
            greeting = eras.read_greeting(discover.result)
        except Refused as exc:
            versions = eras.supported_versions(exc.fault.data)
            if versions and not set(versions) & set(eras.HANDSHAKE_VERSIONS):
                raise SessionFailed(f"the server speaks only {', '.join(versions)}") from exc
        except UNREADABLE:
            pass  # whatever this answer is, it is not the modern era's
        else:
            if eras.MODERN in greeting.supported_versions:
                self.version, self.greeting = eras.MODERN, greeting
                return
        await self._shake_hands(initialize or self._initialize())

    async def _adopt(self, discover: _Ask) -> None:
        await self._first(discover)
        greeting = eras.read_greeting(discover.result)
        if eras.MODERN not in greeting.supported_versions:
            offered = ", ".join(greeting.supported_versions) or "no version"
            raise SessionFailed(f"the server offers {offered}, and protocol is set to {eras.MODERN}")
        self.version, self.greeting = eras.MODERN, greeting

    async def _shake_hands(self, initialize: _Ask) -> None:
        await self._first(initialize)
        greeting = eras.read_greeting(initialize.result)
        if greeting.protocol_version not in eras.HANDSHAKE_VERSIONS:
            raise SessionFailed(
                f"the server wants protocol {greeting.protocol_version!r}, which is not known here"
            )
        self.version, self.greeting = greeting.protocol_version, greeting
        self.wire.notify("notifications/initialized", b"{}")

    def _discover(self) -> _Ask:
        return self._send("server/discover", b'{"_meta":{%s}}' % _STAMP)

    def _initialize(self) -> _Ask:
        return self._send("initialize", eras.initialize_params(CLIENT_INFO, roots=self.roots is not None))

    def _send(self, method: str, params: bytes) -> _Ask:
        ask = _Ask(self._tell)
        try:
            ask.number = self.wire.request(method, params, ask)
        except NotSent as exc:
            ask.lost(End(str(exc)))
        return ask

    async def _first(self, *asks: _Ask) -> None:
        """Wait for the first of the answers, or for proof that nothing will come of it."""
        while not (self._echo or any(ask.done.is_set() for ask in asks)):
            if self._news.is_set():
                self._news = anyio.Event()
            await self._news.wait()
        if self._echo:
            raise SessionFailed("it sends back what it is sent, so it is not an MCP server")

    def _tell(self) -> None:
        self._news.set()

    async def list_tools(self) -> list[msgspec.Raw]:
        """Every tool definition, raw, from all pages.

        Raises:
            SessionFailed: the server refuses, or its pages have no end.
            WireLost: the server ended meanwhile.
        """
        found: list[msgspec.Raw] = []
        seen: set[str] = set()
        cursor: str | None = None
        left = self.limits.list_bytes
        for _ in range(self.limits.pages):
            page, size = await self._page(cursor)
            left -= size
            found += page.tools
            if left < 0:
                raise SessionFailed(f"its tool list is longer than {self.limits.list_bytes} bytes")
            if len(found) > self.limits.tools:
                raise SessionFailed(f"it lists more than {self.limits.tools} tools")
            cursor = page.next_cursor
            if cursor is None:
                return found
            if cursor in seen:
                raise SessionFailed(f"its tool list repeats the cursor {cursor[:80]!r}")
            seen.add(cursor)
        raise SessionFailed(f"its tool list has more than {self.limits.pages} pages")

    async def _page(self, cursor: str | None) -> tuple[_Page, int]:
        """A page, and how many bytes it has."""
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        ask = self._send("tools/list", self.stamped(params))
        await ask.done.wait()
        try:
            return msgspec.json.decode(ask.result, type=_Page), len(ask.result)
        except Refused as exc:
            if exc.fault.code == METHOD_NOT_FOUND and not eras.offers_tools(self.greeting):
                return _Page([]), 0
            raise SessionFailed(f"it cannot list its tools: {exc}") from exc
        except UNREADABLE as exc:
            raise SessionFailed(f"its tool list cannot be read: {exc}") from exc

    def stamped(self, params: dict[str, Any]) -> bytes:
        """Params of ours as they go over the wire in this era."""
        if self.modern:
            params = {**params, "_meta": msgspec.Raw(b"{%s}" % _STAMP)}
        return msgspec.json.encode(params)

    def subscribe(self) -> None:
        """Ask to be told of changes, where the era wants to be asked."""
        if self.modern and eras.announces_tool_changes(self.greeting):
            self._subscription = self._send(
                "subscriptions/listen", self.stamped({"notifications": {"toolsListChanged": True}})
            )

    @property
    def subscribed(self) -> bool:
        """Whether one request is under way that is answered when all is over."""
        return self._subscription is not None and not self._subscription.done.is_set()

    def probe(self, waiting: Waiting) -> None:
        """Ask for a sign of life, in the words of the era.

        Raises:
            NotSent: the server is gone, or takes nothing.
        """
        self.wire.request("server/discover" if self.modern else "ping", self.stamped({}), waiting)

    async def changed(self) -> None:
        """Wait until the server said that its tools changed."""
        await self._stale.wait()
        self._stale = anyio.Event()

    def receive(self, message: Message) -> None:
        """Take what the server sent of its own accord."""
        match message.method:
            case "notifications/progress":
                self.on_progress(message.params)
            case "notifications/tools/list_changed":
                self._stale.set()
            case _ if message.id is not None:
                self._respond(message)
            case _:
                logger.debug("ignoring the notification %s", message.method)

    def _respond(self, message: Message) -> None:
        identity = msgspec.json.encode(message.id)
        if message.method == "ping":
            self.wire.answer(result_line(identity, b"{}"))
        elif message.method in _NOT_A_SERVER:
            # Only a client sends these: what we hear is our own voice.
            self._echo = True
            self._tell()
        elif message.method == "roots/list" and self.roots is not None:
            roots = {"roots": [{"uri": uri} for uri in self.roots]}
            self.wire.answer(result_line(identity, msgspec.json.encode(roots)))
        else:
            sentence = f"{message.method} is not supported by this client"
            self.wire.answer(error_line(identity, METHOD_NOT_FOUND, sentence))
