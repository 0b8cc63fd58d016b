"""The door to one HTTP server: every request of a run goes through it, and what comes back is bounded.

A door knows the address, the configured headers and whom to trust. It follows a redirect only within the
origin, so that headers travel nowhere else, counts bytes after they were unpacked, and tells truly whether a
request that failed had left. It knows no MCP. It alone imports `httpx2`, and only when it is opened.
"""

import contextlib
import hashlib
import logging
import os
import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, NoReturn, cast

import anyio
import anyio.to_thread

from supervisor import __version__
from supervisor.core.addresses import may_lead
from supervisor.core.framing import TooLong
from supervisor.core.gunzip import Gunzip, NotGzip
from supervisor.runtime.certificates import trust
from supervisor.runtime.wire import NotSent

if TYPE_CHECKING:
    import httpx2

_HOPS = 3
_KEPT_OPEN = 20
_AGENT = f"mcp-supervisor/{__version__}"
_SAME_METHOD = (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT)


class Unreachable(NotSent):
    """No connection came about, so nobody can reach this server now."""


class CutOff(Exception):
    """The request had left, or may have, and no answer to it can come any more."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server is."""

    server: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False, default_factory=dict[str, str])
    ca_file: str | None = None
    """Certificates to trust beside the system's."""

    @property
    def fingerprint(self) -> str:
        """Names the address without revealing it."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds, where no call's own deadline says it."""

    connect: float = 10.0
    answer: float = 30.0
    """For the whole of a short exchange, and for the headers of a long one."""
    idle: float = 300.0
    """Silence on a stream that is only listened to, after which it is opened anew."""
    farewell: float = 2.0
    """For ending a session that is no longer needed."""


class Reply:
    """An answer whose body is still on its way."""

    def __init__(self, response: "httpx2.Response", limit: int) -> None:
        self._response, self._limit = response, limit
        self.status = response.status_code

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def line(self) -> str:
        """The status for a person."""
        return f"HTTP {self.status} {_phrase(self.status)}".rstrip()

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """The value of a header; empty when it is absent."""
        value: str = self._response.headers.get(name, "")
        return value

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it comes, unpacked.

        Raises:
            CutOff: the rest of it will not come.
        """
        packed = self.header("content-encoding").lower() or "identity"
        if packed not in ("identity", "gzip"):
            raise CutOff(f"packed its answer as {packed[:40]}, though only gzip was offered")
        gunzip = Gunzip() if packed == "gzip" else None
        with _told_apart(Sending(left=True)):
            async for chunk in self._response.aiter_raw():
                if gunzip is None:
                    yield chunk
                else:
                    for piece in gunzip.feed(chunk):
                        yield piece
                    if gunzip.ended:
                        return

    async def body(self, limit: int | None = None) -> bytes:
        """The whole body.

        Raises:
            CutOff: the rest of it will not come.
            TooLong: it is longer than the bound.
        """
        limit = self._limit if limit is None else limit
        parts: list[bytes] = []
        size = 0
        async with contextlib.aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise TooLong(limit)
                parts.append(chunk)
        return b"".join(parts)


@dataclass(slots=True)
class Sending:
    """Whether a request has left: not while its connection is awaited or made."""

    left: bool = False


class Handshake:
    """A connection that is not ready yet: the library loses sight of it when it is given up meanwhile."""

    def __init__(self, host: str, *, secure: bool) -> None:
        self._host, self._secure = host, secure
        self._bare: Any = None

    async def watch(self, event: str, known: Mapping[str, Any]) -> None:
        """Take note of what the library does for one request.

        Raises:
            Unreachable: the name leads to where it should not.
        """
        if event.endswith("connect_tcp.complete"):
            self._bare = known["return_value"]
            address = str(self._bare.get_extra_info("server_addr")[0])
            if not may_lead(self._host, address):
                raise Unreachable(
                    f"cannot be reached: its name leads to the link-local address {address}, "
                    "which is refused; put the address into url if it is meant"
                )
            if not self._secure:
                self._bare = None
        elif event.endswith("start_tls.complete"):
            self._bare = None

    async def give_up(self) -> None:
        if self._bare is not None:
            await self._bare.aclose()


class Door:
    """The way to one server and back."""

    def __init__(self, client: "httpx2.AsyncClient", site: Site, patience: Patience, limit: int) -> None:
        self._client, self._url, self._limit = client, site.url, limit
        self._headers = {name.lower(): value for name, value in site.headers.items()}
        self.patience = patience

    @contextlib.asynccontextmanager
    async def exchange(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        wait: float | None,
        idle: float | None,
        sending: Sending | None = None,
    ) -> AsyncGenerator[Reply]:
        """Send a request; its answer's headers have come within `wait` seconds, its body may take longer.

        `idle` bounds the silence between two pieces of the body. None is no bound. `sending` is kept true.

        Raises:
            NotSent: the request did not leave, or was not looked at where it arrived.
            CutOff: it left, and no answer came.
        """
        sending = Sending() if sending is None else sending
        with _told_apart(sending):
            with anyio.fail_after(wait):
                response = await self._send(method, headers, body, idle, sending)
        try:
            yield Reply(response, self._limit)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _send(
        self, method: str, headers: Mapping[str, str], body: bytes, idle: float | None, sending: Sending
    ) -> "httpx2.Response":
        url: str | httpx2.URL = self._url
        length = {"content-length": str(len(body))} if body else {}
        for _ in range(_HOPS):
            sending.left = not body
            request = self._client.build_request(
                method,
                url,
                headers=_encoded({**self._headers, **headers, **length}),
                content=_leaving(body, sending) if body else None,
                timeout=(self.patience.connect, idle, self.patience.answer, None),
            )
            response = await self._answer(request)
            if not response.has_redirect_location:
                return response
            await response.aclose()
            url = _within_origin(response)
        raise NotSent("redirects in a circle")

    async def _answer(self, request: "httpx2.Request") -> "httpx2.Response":
        handshake = Handshake(request.url.host, secure=request.url.scheme == "https")
        request.extensions["trace"] = handshake.watch
        try:
            return await self._client.send(request, stream=True)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await handshake.give_up()
            raise


@contextlib.asynccontextmanager
async def open_door(site: Site, patience: Patience, *, limit: int) -> AsyncGenerator[Door]:
    """Have a door to that site, with no connection yet.

    Raises:
        CannotTrust: the entry's certificates cannot be used.
    """
    client = await anyio.to_thread.run_sync(_client, site)
    try:
        yield Door(client, site, patience, limit)
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()


def _client(site: Site) -> "httpx2.AsyncClient":
    """A client of the library; call it in a thread, and let the loop turn meanwhile.

    The library, what it loads with its first client, and the certificates take a good part of a second.
    """
    import httpx2

    context = trust(site.url, site.ca_file)
    for chatty in ("httpx2", "httpcore2"):
        # They would log addresses and headers, which may hold secrets.
        logging.getLogger(chatty).setLevel(logging.WARNING)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT_OPEN)
    # A server could have us keep and send back as many cookies as it likes; MCP needs none.
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    client = httpx2.AsyncClient(verify=context, limits=limits, cookies=no_cookies)
    client.headers = httpx2.Headers({"user-agent": _AGENT, "accept-encoding": "gzip"})
    return client


async def _leaving(body: bytes, sending: Sending) -> AsyncGenerator[bytes]:
    """The body, asked for when the headers have been written; without it nobody can act on a request."""
    sending.left = True
    yield body


def _encoded(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in headers.items()}


def _within_origin(response: "httpx2.Response") -> "httpx2.URL":
    """Where a redirect leads.

    Raises:
        NotSent: out of the origin, or to where only another method may go.
    """
    here = response.request.url
    there = here.join(response.headers["location"])
    if (there.scheme, there.host, there.port) != (here.scheme, here.host, here.port):
        target = f"{there.scheme}://{there.netloc.decode('ascii', 'replace')}"
        raise NotSent(f"redirects to {target}, which is refused; set url to that address if it is right")
    if response.request.method != "GET" and response.status_code not in _SAME_METHOD:
        raise NotSent(
            f"redirects a {response.request.method} with HTTP {response.status_code}, which is refused"
        )
    return there


@contextlib.contextmanager
def _told_apart(sending: Sending) -> Generator[None]:
    """Turn what the library and the clock raise into what is known of the request."""
    import httpx2

    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as exc:
        raise Unreachable(f"cannot be reached: {_cause(exc)}") from exc
    except httpx2.LocalProtocolError as exc:
        raise NotSent("cannot be asked: a header of its entry is not allowed in HTTP") from exc
    except TimeoutError as exc:
        _fail(sending, "did not answer in time", exc)
    except httpx2.ReadTimeout as exc:
        _fail(sending, "fell silent", exc)
    except (httpx2.RequestError, httpx2.InvalidURL, NotGzip) as exc:
        _fail(sending, f"broke the connection off ({_cause(exc)})", exc)


def _fail(sending: Sending, detail: str, cause: Exception) -> NoReturn:
    raise (CutOff if sending.left else NotSent)(detail) from cause


def _cause(exc: BaseException) -> str:
    """The reason at the root of an exception, in the system's own words."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({exc.verify_message})"
    if isinstance(exc, BaseExceptionGroup):
        return _cause(cast("BaseExceptionGroup[BaseException]", exc).exceptions[0])
    deeper = exc.__cause__
    if deeper is None and isinstance(exc.__context__, OSError | anyio.BrokenResourceError):
        deeper = exc.__context__
    if deeper is not None:
        return _cause(deeper)
    if isinstance(exc, TimeoutError):
        return "timed out"
    if isinstance(exc, OSError) and exc.errno is not None:
        # The loops word it each in its own way; a failed look-up of a name has numbers of its own.
        return os.strerror(exc.errno) if exc.errno > 0 else str(exc.strerror)
    return str(exc).rstrip(".") or type(exc).__name__


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
