"""One request over HTTP, and everything that can become of it; each is told one true thing, once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from typing_extensions import override

from supervisor.core.gunzip import PIECE, Gunzip
from supervisor.core.phases import End
from supervisor.runtime import httpdoor
from supervisor.runtime.httpdoor import Patience, Site
from supervisor.runtime.wire import NotSent
from tests.runtime.http_support import LIMIT, HttpStage, opened_at, serving, sockets, told
from tests.runtime.support import PATIENCE, Asked, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
FORMS = pytest.mark.parametrize("form", ["json", "sse"])


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


# The answer, in every form and era.


@ERAS
@FORMS
async def test_a_call_is_answered(era: str, form: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era, "--answers", form) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo", text="hello")) == "answered: hello"


@ERAS
async def test_progress_comes_in_order_and_before_the_answer(era: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served) as stage:
            asked = await stage.call("steps", count=5, token=7)

            assert told(asked) == "answered: done"
            assert [note["progress"] for note in stage.progress] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("method", "answer"),
    [("ping", "{}"), ("sampling/createMessage", '"code": -32601'), ("roots/list", "-32601")],
)
async def test_what_the_server_asks_meanwhile_is_answered(method: str, answer: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with opened_at(served) as stage:
            assert answer in told(await stage.call("ask_back", method=method))


async def test_a_request_of_the_handshake_era_names_its_session(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with opened_at(Site("server", served.url, {"X-Key": "ключ", "Accept": "nothing"})) as stage:
            await stage.call("echo", text="hello")

            (greeting,), (headers,) = served.heard("initialize"), served.heard("tools/call")
            assert "mcp-session-id" not in greeting
            assert "mcp-protocol-version" not in greeting
            assert headers["mcp-session-id"] == stage.run.talk.wire.head.session_id
            assert headers["mcp-protocol-version"] == "2025-11-25"
            assert headers["x-key"] == "ключ"
            assert headers["accept"] == "application/json, text/event-stream"


async def test_a_modern_request_says_what_is_in_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "modern") as served:
        async with opened_at(served) as stage:
            await stage.call("echo", text="hello", region="Zürich")

            (headers,) = served.heard("tools/call")
            assert headers["mcp-protocol-version"] == "2026-07-28"
            assert headers["mcp-method"] == "tools/call"
            assert headers["mcp-name"] == "echo"
            assert headers["mcp-param-region"] == "=?base64?WsO8cmljaA==?="
            assert "mcp-session-id" not in headers
            assert "ill-marked" not in stage.listings[0]


# What a call can meet instead. The fault strikes once, and the next call shows that it struck alone.

MEETS = [
    pytest.param("hang_up", "lost: broke the connection off", id="the connection ends"),
    pytest.param("half_stream", "lost: broke the connection off", id="the stream breaks off"),
    pytest.param("end_early", "lost: ended its answer without an answer", id="the stream ends early"),
    pytest.param("html", "lost: answered HTTP 200 OK with text/html", id="a web page"),
    pytest.param("no_content", "lost: answered HTTP 202 Accepted with nothing", id="no answer"),
    pytest.param("status:500", "unusable: -32603", id="an error of the server"),
    pytest.param("status:418", "unusable: -32600", id="an error of ours"),
    pytest.param("status:403", "unusable: -32600", id="a tool that is forbidden"),
    pytest.param("status:299", "lost: answered HTTP 299 with nothing", id="a status nobody knows"),
    pytest.param("status:502", "lost: was cut off by HTTP 502 Bad Gateway", id="a gateway"),
    pytest.param("status:503", "lost: was cut off by HTTP 503 Service Unavailable", id="no service"),
    pytest.param("huge_error:400", "unusable: -32600", id="an error with a huge page"),
    pytest.param("rpc_error:400,-32602", "refused: -32602", id="a refusal of the server's own"),
    pytest.param("broken_error", "unusable: -32600", id="a refusal that is no text"),
    pytest.param("rpc_error:400,-32020", "refused: -32020", id="headers by an old schema"),
    pytest.param("huge_event:2000000", "unusable: -32009", id="H11 a huge event"),
    pytest.param("huge_body:2000000", "unusable: -32009", id="a huge body"),
    pytest.param("bomb:50000000", "unusable: -32009", id="H15 a gzip bomb"),
    pytest.param("damaged", "lost: broke the connection off", id="damaged gzip"),
    pytest.param("packed:br", "lost: packed its answer as br", id="an encoding that was not offered"),
    pytest.param("packed:gzip", "answered: ok", id="gzip"),
    pytest.param("foreign_id", "answered: hello", id="H17 answers to others"),
    pytest.param("redirect:307,/moved", "answered: hello", id="a redirect within the origin"),
    pytest.param("redirect:302,/moved", "not sent: redirects a POST with HTTP 302", id="a redirect to GET"),
    pytest.param("redirect:307,/mcp", "not sent: redirects in a circle", id="a circle"),
    pytest.param("redirect:307,//localhost/", "not sent: redirects to http://localhost", id="H12 elsewhere"),
    pytest.param("redirect:307,https://127.0.0.1/", "not sent: redirects to https:", id="H12 upwards"),
]


@pytest.mark.parametrize(("fault", "outcome"), MEETS)
async def test_a_request_that_fails_ends_alone(fault: str, outcome: str, tmp_path: Path) -> None:
    times = 3 if fault.endswith("/mcp") else 1
    with serving(tmp_path, "--fault", fault, "--times", times) as served:
        async with opened_at(served) as stage:
            asked = await stage.call("echo", text="hello")

            assert told(asked).startswith(outcome)
            assert told(await stage.call("echo", text="again")) == "answered: again"


class Counted(Gunzip):
    """Counts what it unpacks."""

    unpacked: ClassVar[list[int]] = []

    @override
    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for piece in super().feed(chunk):
            self.unpacked.append(len(piece))
            yield piece


async def test_no_more_of_a_bomb_is_unpacked_than_an_answer_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpdoor, "Gunzip", Counted)
    with serving(tmp_path, "--fault", "bomb:50000000", "--times", 1) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo")) == "unusable: -32009"

    assert LIMIT < sum(Counted.unpacked) <= LIMIT + PIECE


async def test_no_header_travels_to_where_a_redirect_leads(tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    with serving(elsewhere) as other, serving(tmp_path, "--fault", f"redirect:307,{other.url}") as served:
        async with opened_at(Site("server", served.url, {"X-API-Key": "secret"})) as stage:
            assert told(await stage.call("echo")).startswith(
                f"not sent: redirects to http://127.0.0.1:{other.port}"
            )

            assert other.log == []


async def test_an_answer_to_another_request_is_noise(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", "foreign_id") as served:
        async with opened_at(served) as stage:
            _, other = stage.ask("wait", seconds=30)

            await stage.call("echo", text="hello")

            await until(lambda: stage.run.talk.noise == 8)
            assert other.told == []
            assert "(not MCP)" in stage.log.tail(1)[0].text


async def test_a_message_that_we_stumble_over_costs_its_own_request_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path) as served:
        async with opened_at(served) as stage:
            stage.run.talk.session.on_progress = stage.listings.remove  # type: ignore[assignment]

            asked = await stage.call("steps", count=1, token=7)

            assert told(asked) == "lost: sent what cannot be understood (ValueError)"
            assert "in a way nobody thought of" in caplog.text
            assert told(await stage.call("echo", text="again")) == "answered: again"


@pytest.mark.parametrize("fault", ["status:500", "hang_up"])
async def test_a_server_that_refuses_what_has_no_answer_is_talked_with_all_the_same(
    fault: str, tmp_path: Path
) -> None:
    at = ("--at", "notifications/initialized")
    with serving(tmp_path, "--era", "legacy", "--fault", fault, *at) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo", text="hello")) == "answered: hello"


# Time.


@ERAS
@pytest.mark.parametrize("fault", ["slow_headers", "slow_body", "silent", "endless"])
async def test_a_call_that_is_given_up_frees_its_connection(era: str, fault: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era, "--fault", fault, "--times", 1) as served:
        async with opened_at(served, patience=Patience()) as stage:
            await until(lambda: served.heard("GET" if era == "legacy" else "subscriptions/listen"))
            number, asked = stage.ask("echo")
            await until(lambda: served.heard("tools/call"))
            assert told(await stage.call("echo", text="meanwhile")) == "answered: meanwhile"
            held = sockets()

            assert stage.run.talk.wire.forget(number)

            await until(lambda: sockets() < held)
            assert asked.told == []
            assert not stage.run.talk.wire.forget(number)


@pytest.mark.parametrize(("era", "count"), [("legacy", 1), ("modern", 0)])
async def test_a_cancellation_is_said_only_where_a_closed_stream_does_not_say_it(
    era: str, count: int, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served) as stage:
            stage.run.talk.wire.notify("notifications/cancelled", b'{"requestId":1}')
            await stage.call("echo")

            await until(lambda: len(served.heard("notifications/cancelled")) == count)


@pytest.mark.parametrize("fault", ["slow_headers", "slow_body", "silent"])
async def test_what_is_no_call_is_waited_for_as_long_as_patience_lasts(fault: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", fault, "--at", "ping", "--times", 1) as served:
        async with opened_at(served) as stage:
            asked = Asked()
            stage.run.talk.wire.request("ping", b"{}", asked)

            await until(lambda: asked.told)

            assert told(asked) == "lost: did not answer ping within 2 s"


@pytest.mark.parametrize(
    ("status", "pause"),
    [
        ("429,retry-after=7", 7),
        ("503,retry-after=7", 7),
        ("429,retry-after=Wed, 21 Oct 2099 07:28:00 GMT", 3600),
        ("429,retry-after=Wed, 21 Oct 2099 07:28:00 +9999999", 1),
        ("429,retry-after=soon", 1),
        ("429", 1),
    ],
)
async def test_a_server_that_asks_to_be_let_alone_is_let_alone(
    status: str, pause: float, tmp_path: Path
) -> None:
    with serving(tmp_path, "--fault", f"status:{status}") as served:
        async with opened_at(served) as stage:
            (first,) = (await stage.call("echo")).told
            (second,) = (await stage.call("echo")).told

            assert isinstance(first, NotSent)
            assert first.retry_after == pause
            assert isinstance(second, NotSent)
            assert 0 < (second.retry_after or 0) <= pause
            assert len(served.heard("tools/call")) == 1


# Sessions.


@pytest.mark.parametrize("status", [404, 400])
async def test_a_forgotten_session_is_renewed_and_the_call_repeated_once(status: int, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", f"forget:{status}", "--times", 1) as served:
        async with opened_at(served) as stage:
            before = stage.run.talk.wire.head.session_id
            calls = [stage.ask("echo", text=f"{number}")[1] for number in range(5)]
            await until(lambda: all(asked.told for asked in calls))

            assert sorted(map(told, calls)) == [f"answered: {number}" for number in range(5)]
            assert len(served.ran("echo")) == 5
            assert len(served.heard("initialize")) == 2
            assert stage.run.talk.wire.head.session_id != before


async def test_a_call_that_meets_a_lost_session_twice_was_not_sent(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", "status:404") as served:
        async with opened_at(served) as stage:
            asked = await stage.call("echo")

            assert told(asked) == "not sent: forgot the session, and the new one too"
            assert len(served.heard("initialize")) == 2


@pytest.mark.parametrize("wait", ["", "10"])
async def test_an_answer_whose_stream_broke_off_is_fetched_where_the_server_kept_it(
    wait: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", f"resumable:{wait}", "--times", 1) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo", text="kept")) == "answered: kept"

            assert [headers.get("last-event-id") for headers in served.heard("GET")][-1] == "e1"
            assert len(served.ran("echo")) == 1


@pytest.mark.parametrize(
    ("argument", "outcome"),
    [
        ("refused", "lost: broke its answer off and does not resume it (refused with HTTP 405)"),
        ("cut off", "lost: ended its answer without an answer in it"),
        ("dead", "lost: broke its answer off and does not resume it (cannot be reached: Connection refused)"),
    ],
)
async def test_an_answer_that_cannot_be_fetched_is_lost_and_never_said_to_be_unsent(
    argument: str, outcome: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", f"abandoned:{argument}", "--times", 1) as served:
        async with opened_at(served) as stage:
            assert told(await stage.call("echo")) == outcome


# The wire before and after.


async def test_nothing_is_sent_before_the_door_is_open_or_after_the_end() -> None:
    stage = HttpStage(Site("server", "http://127.0.0.1:1/"))
    wire: Any = stage.run.talk.wire
    with pytest.raises(NotSent, match="not connected yet"):
        wire.request("ping", b"{}", Asked())
    wire.answer(b"{}")

    wire.lose(End("was closed"))

    with pytest.raises(NotSent, match="it was closed"):
        wire.request("ping", b"{}", Asked())
    await wire.farewell()
    assert not wire.alive
    assert wire.retry is None


async def test_whoever_waits_when_the_run_is_dropped_is_told(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        async with opened_at(served) as stage:
            _, asked = stage.ask("wait", seconds=30)
            await until(lambda: served.heard("tools/call"))

            stage.run.abort()
            await stage.ended()

            assert told(asked) == "lost: was closed"


async def test_a_hundred_calls_at_once_are_each_answered(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "modern") as served:
        async with opened_at(served, patience=Patience()) as stage:
            calls = [stage.ask("echo", text=f"{number}")[1] for number in range(100)]
            with anyio.fail_after(PATIENCE):
                for asked in calls:
                    await asked.done.wait()

            assert [asked.text for asked in calls] == [f"{number}" for number in range(100)]
