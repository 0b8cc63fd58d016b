"""Metrics and health over HTTP: three pages, for readers on this machine.

Owns the listener and as much of HTTP/1.1 as GET and HEAD need. A request is small and read within a bound of
time; its connection is closed after the answer. The Host header must name this machine, so that a page in a
browser cannot read us under a name of its own. What the pages say is their handlers' business.
"""

import errno
import ipaddress
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from supervisor.core.spec import HttpSettings
from supervisor.errors import BadConfig

logger = logging.getLogger(__name__)

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 5.0
"""How long a reader may take to say what it wants."""
ANSWER_SECONDS = 30.0
"""How long it may take to read the answer."""
CONNECTIONS = 64
_WILDCARDS = frozenset({"0.0.0.0", "::", "*", ""})  # noqa: S104 - compared with, not listened at


class Request(Struct, frozen=True):
    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case name."""


class Response(Struct, frozen=True):
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"

    def encoded(self, *, with_body: bool) -> bytes:
        lines = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Allow: GET, HEAD",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        head = "".join(f"{line}\r\n" for line in (*lines, ""))
        return head.encode() + (self.body if with_body else b"")


Handler = Callable[[Request], Awaitable[Response]]


class BadRequest(Exception):
    """The answer to a request that cannot be served."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.response = Response(f"{sentence}\n".encode(), status)


def parse_head(head: bytes) -> Request:
    """The request line and the headers.

    Raises:
        BadRequest: they are not those of a request that can be served here.
    """
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "cannot read the request line")
    headers: dict[str, str] = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "cannot read the headers: one is malformed or repeated")
        headers[name.lower()] = value.strip()
    if words[0] not in ("GET", "HEAD"):
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "cannot do that here: use GET or HEAD")
    return Request(words[0], words[1].partition("?")[0], headers)


def names_us(host: str, configured: str, machine: str) -> bool:
    """Whether a Host header names this machine, by an address or name that we are configured to be known by.

    Where we listen at all addresses, each address will do, and the machine's own name.
    """
    name = _without_port(host).lower()
    address = _address(name)
    if address is not None and address.is_loopback:
        return True
    if configured in _WILDCARDS:
        return address is not None or name in ("localhost", machine.lower())
    return name in ("localhost", configured.lower())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class HttpSurface:
    """Serves pages by their paths."""

    def __init__(self, settings: HttpSettings, pages: Mapping[str, Handler], *, machine: str) -> None:
        self._settings, self._pages, self._machine = settings, pages, machine
        self._room = anyio.CapacityLimiter(CONNECTIONS)
        self.port = settings.port
        """Where it listens; the one that was chosen, when the setting is 0."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answer until the block is left.

        Raises:
            BadConfig: nobody can listen there.
        """
        async with await self._listen() as listener, anyio.create_task_group() as tasks:
            self.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django here
            logger.info("metrics and health at http://%s:%d", self._settings.host, self.port)
            tasks.start_soon(listener.serve, self._serve)
            yield
            tasks.cancel_scope.cancel()

    async def _listen(self) -> Listener[SocketStream]:
        host, port = self._settings.host, self._settings.port
        try:
            return await anyio.create_tcp_listener(
                local_host=None if host in _WILDCARDS else host, local_port=port
            )
        except OSError as exc:
            taken = exc.errno == errno.EADDRINUSE
            why = "the port is taken" if taken else exc.strerror or str(exc)
            raise BadConfig(
                f"cannot serve metrics and health at {host}:{port}: {why}; "
                'set "http" in "supervisor" to another host or port, or to false'
            ) from exc

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            # Whoever cannot be served, or hangs up, is no news.
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.EndOfStream, TimeoutError):
                self._room.acquire_on_behalf_of_nowait(stream)
                try:
                    await self._converse(stream)
                finally:
                    self._room.release_on_behalf_of(stream)

    async def _converse(self, stream: SocketStream) -> None:
        with_body = True
        try:
            with anyio.fail_after(HEAD_SECONDS):
                request = await _read_head(stream)
            with_body = request.method != "HEAD"
            response = await self._answer(request)
        except BadRequest as exc:
            response = exc.response
        with anyio.fail_after(ANSWER_SECONDS):
            await stream.send(response.encoded(with_body=with_body))
            await _part(stream)

    async def _answer(self, request: Request) -> Response:
        host = request.headers.get("host")
        if host is None:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "cannot answer without a Host header")
        if not names_us(host, self._settings.host, self._machine):
            sentence = 'cannot answer under that name; set "host" of "http" in "supervisor" to it'
            raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, sentence)
        page = self._pages.get(request.path)
        if page is None:
            known = ", ".join(self._pages)
            raise BadRequest(HTTPStatus.NOT_FOUND, f"cannot find that page; there are {known}")
        try:
            return await page(request)
        except Exception:  # the boundary: a bug in a page costs one answer
            logger.exception("cannot make the page %s", request.path)
            body = b"cannot make this page: an internal error, see the log\n"
            return Response(body, HTTPStatus.INTERNAL_SERVER_ERROR)


async def _read_head(stream: SocketStream) -> Request:
    reader = BufferedByteReceiveStream(stream)
    try:
        return parse_head(await reader.receive_until(b"\r\n\r\n", HEAD_BYTES))
    except anyio.DelimiterNotFound:
        sentence = f"cannot read more than {HEAD_BYTES} bytes of headers"
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, sentence) from None
    except anyio.IncompleteRead:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "cannot read the headers: they end too early") from None


async def _part(stream: SocketStream) -> None:
    """Let the reader have the answer: closing at once would take back what it has not read yet."""
    await stream.send_eof()
    with anyio.move_on_after(1), suppress(anyio.EndOfStream):
        for _ in range(16):
            await stream.receive()
