"""A run of an HTTP server, from the greeting to the last connection."""

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from supervisor.core.phases import End, Opened
from supervisor.runtime.http import HttpRun
from supervisor.runtime.httpdoor import Patience, Site, open_door
from supervisor.runtime.wire import NotSent
from tests.runtime.http_support import SHORT, opened_at, serving, sockets, staged_at
from tests.runtime.support import LOOPS, PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
CERTIFICATES = Path(__file__).parents[1] / "fake_servers"
NOWHERE = Site("server", "http://127.0.0.1:1/mcp")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


# The start.


@LOOPS
@pytest.mark.parametrize(
    ("era", "protocol", "version"),
    [
        ("legacy", "auto", "2025-11-25"),
        ("modern", "auto", "2026-07-28"),
        ("both", "auto", "2026-07-28"),
        ("both", "2025-11-25", "2025-11-25"),
        ("both", "2026-07-28", "2026-07-28"),
    ],
)
async def test_a_server_of_either_era_is_greeted_and_listed(
    era: str, protocol: str, version: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served, protocol=protocol) as stage:
            assert stage.run.talk.session.version == version
            assert "echo" in stage.listings[0]
            assert [what for what, _ in stage.run.talk.timeline] == ["started", "greeted", "listed"]
            assert stage.run.pid is None


@pytest.mark.parametrize("fault", ["hang_up", "status:500", "status:502", "html"])
async def test_a_server_that_fails_at_an_unknown_method_is_greeted_the_old_way(
    fault: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--fault", fault, "--at", "server/discover") as served:
        async with opened_at(served) as stage:
            assert stage.run.talk.session.version == "2025-11-25"


STARTS = [
    pytest.param("status:401", "any", "needs credentials: it answered HTTP 401", True, id="H4 401"),
    pytest.param("status:403", "any", "needs credentials: it answered HTTP 403", True, id="H4 403"),
    pytest.param("status:404", "any", "the server answered HTTP 404 Not Found", False, id="no such page"),
    pytest.param("html", "any", "with text/html, which is not MCP", False, id="a web page"),
    pytest.param("hang_up", "any", "broke the connection off", False, id="hangs up"),
    pytest.param("hang_up", "tools/list", "broke the connection off", False, id="hangs up at tools"),
    pytest.param("slow_headers", "tools/list", "did not answer tools/list within 2 s", False, id="H7"),
    pytest.param("slow_body", "tools/list", "did not answer tools/list within 2 s", False, id="H8"),
    pytest.param("silent", "tools/list", "did not answer tools/list within 2 s", False, id="H9"),
    pytest.param("redirect:301,http://localhost/", "any", "redirects to http://localhost", False, id="H12"),
    pytest.param("status:429,retry-after=60", "any", "asks to be let alone for 60 s", False, id="H5"),
]


@pytest.mark.parametrize(("fault", "at", "reason", "hopeless"), STARTS)
async def test_a_start_that_fails_says_why(
    fault: str, at: str, reason: str, hopeless: bool, tmp_path: Path
) -> None:
    with serving(tmp_path, "--fault", fault, "--at", at) as served:
        async with staged_at(served) as stage:
            end = await stage.ended()

            assert reason in end.detail
            assert end.hopeless is hopeless
            assert Opened(1) not in stage.events


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        pytest.param(NOWHERE, "cannot be reached: Connection refused", id="H1 refused"),
        pytest.param(Site("server", "http://nowhere.invalid/"), "cannot be reached: ", id="H2 no such name"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_a_failure_that_may_pass(site: Site, reason: str) -> None:
    async with staged_at(site) as stage:
        end = await stage.ended()

        assert reason in end.detail
        assert not end.hopeless


async def test_a_header_with_a_line_break_is_never_sent(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        async with staged_at(Site("server", served.url, {"x": "secret\r\nb: c"})) as stage:
            end = await stage.ended()

            assert end.detail == "cannot be asked: a header of its entry is not allowed in HTTP"
            assert served.log == []


async def test_a_start_waits_out_a_short_pause_that_the_server_asks_for(tmp_path: Path) -> None:
    fault = ("--fault", "status:429,retry-after=1", "--at", "any", "--times", 1)
    with serving(tmp_path, *fault) as served:
        async with opened_at(served):
            assert len(served.heard("server/discover")) == 2


@pytest.mark.parametrize(
    ("certificate", "trusted", "reason"),
    [
        ("localhost", False, "its certificate is not trusted (self-signed certificate)"),
        ("expired", True, "its certificate is not trusted (certificate has expired)"),
    ],
)
async def test_a_certificate_that_is_not_trusted_is_refused(
    certificate: str, trusted: bool, reason: str, tmp_path: Path
) -> None:
    pem = str(CERTIFICATES / f"{certificate}.pem")
    with serving(tmp_path, "--tls", pem) as served:
        async with staged_at(Site("server", served.url, ca_file=pem if trusted else None)) as stage:
            assert reason in (await stage.ended()).detail
            assert served.log == []


async def test_a_certificate_is_trusted_when_the_entry_says_so(tmp_path: Path) -> None:
    pem = str(CERTIFICATES / "localhost.pem")
    with serving(tmp_path, "--tls", pem) as served:
        async with opened_at(Site("server", served.url, ca_file=pem)) as stage:
            assert (await stage.call("echo", text="hello")).text == "hello"


@pytest.fixture
def nothing_is_collected() -> Iterator[None]:
    """What is not closed stays open for all to see."""
    gc.disable()
    yield
    gc.enable()


@LOOPS
@pytest.mark.usefixtures("nothing_is_collected")
async def test_what_is_dropped_before_it_is_secured_leaves_no_connection(tmp_path: Path) -> None:
    # It does not speak TLS, and waits for ever for the end of our first line.
    with serving(tmp_path) as served:
        async with open_door(Site("server", f"https://127.0.0.1:{served.port}/"), SHORT, limit=100) as door:
            before = sockets()
            with anyio.move_on_after(0.2):
                async with door.exchange("POST", {}, b"{}", wait=None, idle=None):
                    pass

            await until(lambda: sockets() == before)


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_certificates_that_cannot_be_read_are_a_hopeless_start(
    content: str | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    async with staged_at(Site("server", "https://127.0.0.1:1/", ca_file=f"{tmp_path}/ca.pem")) as stage:
        end = await stage.ended()

        assert end.detail.startswith(f"cannot use caFile {tmp_path}/ca.pem")
        assert end.hopeless


# Listening.


@ERAS
async def test_tools_are_listed_anew_when_the_server_says_so(era: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served) as stage:
            await until(lambda: served.heard("GET" if era == "legacy" else "subscriptions/listen"))

            await stage.call("change")

            await until(lambda: "extra0" in stage.listings[-1])


@ERAS
async def test_what_changed_before_the_stream_was_open_is_not_missed(era: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served) as stage:
            await until(lambda: len(stage.listings) == 2)

            assert len(served.heard("tools/list")) == 2
            assert served.heard("GET" if era == "legacy" else "subscriptions/listen")


@ERAS
@pytest.mark.parametrize("rudely", [True, False])
async def test_a_stream_that_ends_is_opened_again_and_nothing_is_missed(
    era: str, rudely: bool, tmp_path: Path
) -> None:
    stream = "GET" if era == "legacy" else "subscriptions/listen"
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served) as stage:
            await until(lambda: len(stage.listings) == 2)
            await stage.call("hang_up_stream", rudely=rudely)

            await until(lambda: len(served.heard(stream)) == 2)

            await until(lambda: len(stage.listings) == 3)
            assert stage.end is None


@ERAS
async def test_a_stream_that_falls_silent_is_opened_again(era: str, tmp_path: Path) -> None:
    stream = "GET" if era == "legacy" else "subscriptions/listen"
    with serving(tmp_path, "--era", era) as served:
        async with opened_at(served, patience=Patience(idle=0.1)):
            await until(lambda: len(served.heard(stream)) > 1)


@pytest.mark.parametrize(
    ("era", "at", "fault"),
    [
        ("legacy", "GET", "status:405"),
        ("legacy", "GET", "html"),
        ("modern", "subscriptions/listen", "rpc_error:404,-32601"),
    ],
)
async def test_a_server_without_a_stream_is_not_asked_for_it_again(
    era: str, at: str, fault: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", era, "--fault", fault, "--at", at) as served:
        async with opened_at(served) as stage:
            await until(lambda: served.heard(at))
            assert (await stage.call("echo", text="hello")).text == "hello"

            assert len(served.heard(at)) == 1
            assert stage.end is None


@pytest.mark.parametrize(
    ("era", "at", "fault"),
    [
        ("legacy", "GET", "status:500"),
        ("legacy", "GET", "status:409"),
        ("legacy", "GET", "status:429,retry-after=0"),
        ("modern", "subscriptions/listen", "rpc_error:200,-32603"),
    ],
)
async def test_a_stream_that_is_refused_for_now_is_asked_for_again(
    era: str, at: str, fault: str, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", era, "--fault", fault, "--at", at, "--times", 1) as served:
        async with opened_at(served):
            await until(lambda: len(served.heard(at)) == 2)


async def test_a_session_that_is_forgotten_while_nobody_calls_is_renewed(tmp_path: Path) -> None:
    fault = ("--fault", "forget", "--at", "GET", "--times", 1)
    with serving(tmp_path, "--era", "legacy", *fault) as served:
        async with opened_at(served) as stage:
            await until(lambda: len(served.heard("initialize")) == 2)

            await until(lambda: len(stage.listings) >= 2)
            assert stage.end is None


async def test_a_server_that_keeps_no_sessions_is_asked_for_no_stream(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--stateless") as served:
        async with opened_at(served) as stage:
            await stage.call("echo", text="hello")

            assert served.heard("GET") == []


# The end.


@ERAS
async def test_a_server_that_dies_is_lost_at_once_and_its_call_is_unknown(era: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era, "--stateless") as served:
        async with opened_at(served, patience=Patience(3600.0, 3600.0, 3600.0, 3600.0)) as stage:
            (dying,) = (await stage.call("die")).told

            await stage.lost()

            assert isinstance(dying, End)
            end = await stage.ended()
            assert not end.hopeless
            assert len(served.ran("die")) == 1


async def test_a_call_that_finds_nobody_was_not_sent_and_the_run_is_over(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--stateless") as served:
        async with opened_at(served) as stage:
            served.kill()

            (outcome,) = (await stage.call("echo")).told

            assert isinstance(outcome, NotSent)
            assert "cannot be reached" in await stage.lost()


async def test_calls_under_way_may_end_by_themselves_when_the_server_takes_no_more(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with opened_at(served) as stage:
            _, under_way = stage.ask("wait", seconds=0.5)
            await until(lambda: served.ran("wait"))

            stage.run.talk.fail(End("cannot be reached: so we say"))

            assert await stage.lost() == "cannot be reached: so we say"
            await stage.ended()
            assert under_way.text == "waited"


@ERAS
async def test_credentials_that_expire_end_the_run_for_good(era: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", era, "--fault", "status:401") as served:
        async with opened_at(served) as stage:
            (outcome,) = (await stage.call("echo")).told

            assert isinstance(outcome, NotSent)
            assert (await stage.ended()).hopeless


async def test_a_server_that_changes_its_era_is_greeted_anew_by_another_run(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "modern", "--fault", "rpc_error:400,-32022") as served:
        async with opened_at(served) as stage:
            await stage.call("echo")

            assert await stage.lost() == "no longer speaks 2026-07-28"


async def test_a_server_that_breaks_off_everything_is_lost_though_it_can_be_reached(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--stateless", "--fault", "hang_up", "--at", "ping") as served:
        async with opened_at(served) as stage:
            stage.run.talk.doubt()

            assert await stage.lost() == "broke off 3 requests in a row"


async def test_a_session_that_cannot_be_renewed_ends_the_run(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", "forget_all") as served:
        async with opened_at(served) as stage:
            (outcome,) = (await stage.call("echo")).told

            assert isinstance(outcome, NotSent)
            assert "forgot the session, and no new one can be had" in await stage.lost()


async def test_a_clean_close_ends_the_session(tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with opened_at(served) as stage:
            _, under_way = stage.ask("wait", seconds=30)
            await until(lambda: served.heard("tools/call"))

            stage.run.close()
            end = await stage.ended()

            assert end.detail == "session closed"
            assert under_way.told == [end]
            assert len(served.heard("DELETE")) == 1


@pytest.mark.parametrize("fault", ["silent", "hang_up", "slow_headers", "status:405"])
async def test_a_farewell_that_fails_holds_nobody(fault: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", fault, "--at", "DELETE") as served:
        async with opened_at(served, patience=replace(SHORT, answer=3600.0)) as stage:
            stage.run.close()

            await stage.ended()


@LOOPS
async def test_a_run_that_is_closed_or_dropped_while_it_starts_ends(
    anyio_backend: object, tmp_path: Path
) -> None:
    with serving(tmp_path, "--fault", "silent", "--at", "any") as served:
        for leave in (HttpRun.close, HttpRun.abort):
            async with staged_at(served) as stage:
                await until(lambda: served.heard("server/discover"))
                leave(stage.run)

                with anyio.fail_after(PATIENCE):
                    await stage.ended()
