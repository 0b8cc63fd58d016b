"""The small HTTP server: what it reads, whom it answers, and what it refuses."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from socket import inet_ntoa

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.spec import HttpSettings
from supervisor.errors import BadConfig
from supervisor.surfaces import http
from supervisor.surfaces.http import BadRequest, HttpSurface, Request, Response, names_us, parse_head

pytestmark = pytest.mark.anyio

LISTENING = "0A"
"""As /proc/net/tcp says it."""


async def show(request: Request) -> Response:
    return Response(f"{request.method} {request.path}".encode())


async def fail(_request: Request) -> Response:
    raise RuntimeError("a bug")


@asynccontextmanager
async def serving(port: int = 0) -> AsyncGenerator[HttpSurface]:
    settings = HttpSettings(port=port)
    surface = HttpSurface(settings, {"/page": show, "/bug": fail}, machine="box")
    with anyio.fail_after(10):
        async with surface.serving():
            yield surface


async def ask(surface: HttpSurface, content: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer to these bytes."""
    async with await anyio.connect_tcp("127.0.0.1", surface.port) as stream:
        await stream.send(content)
        await stream.send_eof()
        answer = b"".join([chunk async for chunk in stream])
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def get(path: str, host: str = "localhost", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("content", "status", "body"),
    [
        (get("/page"), 200, b"GET /page"),
        (get("/page?a=b"), 200, b"GET /page"),
        (get("/page", method="HEAD"), 200, b""),
        (get("/none"), 404, b"cannot find that page; there are /page, /bug\n"),
        (get("/page", method="POST"), 405, b"cannot do that here: use GET or HEAD\n"),
        (get("/page", host="evil.example"), 421, None),
        (b"GET /page HTTP/1.1\r\n\r\n", 400, b"cannot answer without a Host header\n"),
        (b"GET /page HTTP/1.1\r\nHost: local", 400, b"cannot read the headers: they end too early\n"),
        (b"what\r\n\r\n", 400, b"cannot read the request line\n"),
        (b"GET /page HTTP/1.1\r\n" + b"X: y" * http.HEAD_BYTES, 431, None),
        (get("/bug"), 500, b"cannot make this page: an internal error, see the log\n"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_request_gets_its_answer(content: bytes, status: int, body: bytes | None) -> None:
    async with serving() as surface:
        answered, text = await ask(surface, content)

    assert answered == status
    assert body in (None, text)


async def test_a_taken_port_names_the_setting() -> None:
    async with serving() as surface:
        with pytest.raises(BadConfig, match=r'the port is taken; set "http" in "supervisor"'):
            async with serving(surface.port):
                pass


async def test_only_this_machine_is_listened_at() -> None:
    async with serving() as surface:
        assert listened_at(surface.port) == ["127.0.0.1"]


def listened_at(port: int) -> list[str]:
    """The addresses at which a port is open, by what the kernel says."""
    tables = [Path("/proc/net", family).read_text(encoding="ascii") for family in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    sockets = [row[1].partition(":") for row in rows if row[3] == LISTENING]
    return [inet_ntoa(bytes.fromhex(address)[::-1]) for address, _, at in sockets if int(at, 16) == port]


async def test_a_host_that_is_not_ours_cannot_be_listened_at() -> None:
    surface = HttpSurface(HttpSettings(host="192.0.2.1"), {}, machine="box")

    with pytest.raises(BadConfig, match=r"cannot serve metrics and health at 192\.0\.2\.1:9464"):
        async with surface.serving():
            pass


async def test_a_reader_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.05)

    async with serving() as surface, await anyio.connect_tcp("127.0.0.1", surface.port) as silent:
        with pytest.raises(anyio.EndOfStream):
            await silent.receive()


async def test_a_connection_too_many_is_dropped_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CONNECTIONS", 1)

    async with serving() as surface, await anyio.connect_tcp("127.0.0.1", surface.port) as first:
        await first.send(b"GET /page HTTP/1.1\r\n")
        async with await anyio.connect_tcp("127.0.0.1", surface.port) as second:
            with pytest.raises(anyio.EndOfStream):
                await second.receive()
        await first.send(b"Host: localhost\r\n\r\n")
        assert (await first.receive()).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("host", "configured", "ours"),
    [
        ("localhost", "127.0.0.1", True),
        ("LOCALHOST:9464", "127.0.0.1", True),
        ("127.0.0.1:9464", "127.0.0.1", True),
        ("[::1]:9464", "127.0.0.1", True),
        ("evil.example", "127.0.0.1", False),
        ("localhost.evil.example", "127.0.0.1", False),
        ("10.0.0.7:9464", "127.0.0.1", False),
        ("10.0.0.7:9464", "10.0.0.7", True),
        ("metrics.lan", "metrics.lan", True),
        ("10.0.0.7", "0.0.0.0", True),
        ("box:9464", "::", True),
        ("evil.example", "0.0.0.0", False),
        ("", "127.0.0.1", False),
    ],
)
def test_only_names_of_this_machine_are_answered(host: str, configured: str, ours: bool) -> None:
    assert names_us(host, configured, "box") is ours


@pytest.mark.parametrize(
    "head",
    [
        b"GET /",
        b"GET / HTTP/2",
        b"GET / HTTP/1.1\r\nno colon",
        b"GET / HTTP/1.1\r\nHost : a",
        b"GET / HTTP/1.1\r\n: a",
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: b",
    ],
)
def test_a_malformed_head_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_head(head)

    assert refused.value.response.status == HTTPStatus.BAD_REQUEST


@given(st.binary(max_size=200), st.sampled_from([bytes, lambda tail: b"GET / HTTP/1.1\r\n" + tail]))
def test_no_bytes_are_more_than_refused(tail: bytes, form: Callable[[bytes], bytes]) -> None:
    with suppress(BadRequest):
        assert parse_head(form(tail)).method in ("GET", "HEAD")
