"""Negotiation with a scripted server, on a virtual clock: no second is spent."""

import anyio
import pytest
from trio.testing import MockClock

from supervisor.core.eras import HANDSHAKE_VERSIONS, MODERN
from supervisor.core.phases import End
from supervisor.runtime.session import Limits, SessionFailed, WireLost
from tests.runtime.peer import HANDSHAKE, LEGACY_HELLO, MODERN_HELLO, REFUSED, Answer, Echo, Peer, negotiate


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


# Which era.


async def test_a_modern_server_is_asked_once_and_not_greeted() -> None:
    peer = Peer(server_discover=MODERN_HELLO)

    session = await negotiate(peer)

    assert session.version == MODERN
    assert peer.methods == ["server/discover"]


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_server_that_refuses_the_probe_is_greeted_on_the_same_wire(version: str) -> None:
    peer = Peer(server_discover=REFUSED, initialize={"result": {"protocolVersion": version}})

    session = await negotiate(peer)

    assert session.version == version
    assert not session.probe_ignored
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"supportedVersions": ["2030-01-01"]}},
        {"result": {"supportedVersions": 7}},
        {"result": "hello"},
        {"error": {"code": -32022, "message": "no", "data": {"supported": [HANDSHAKE, "2030-01-01"]}}},
        {"error": {"code": -32022, "message": "no", "data": "strange"}},
        {},
    ],
)
async def test_whatever_the_probe_is_answered_a_handshake_may_follow(answer: Answer) -> None:
    peer = Peer(server_discover=answer, initialize=LEGACY_HELLO)

    assert (await negotiate(peer)).version == HANDSHAKE


async def test_a_server_that_speaks_only_unknown_versions_is_not_greeted() -> None:
    refusal = {"code": -32022, "message": "no", "data": {"supported": ["2030-01-01", "2031-01-01"]}}
    peer = Peer(server_discover={"error": refusal}, initialize=LEGACY_HELLO)

    with pytest.raises(SessionFailed, match="speaks only 2030-01-01, 2031-01-01"):
        await negotiate(peer)

    assert peer.methods == ["server/discover"]


async def test_a_server_that_ignores_the_probe_is_greeted_after_a_while() -> None:
    peer = Peer(initialize=LEGACY_HELLO)
    began = anyio.current_time()

    session = await negotiate(peer)

    assert session.version == HANDSHAKE
    assert session.probe_ignored
    assert anyio.current_time() - began == pytest.approx(Limits().probe)


async def test_a_server_that_answers_the_probe_late_is_still_modern() -> None:
    peer = Peer()

    async with anyio.create_task_group() as tg:
        tg.start_soon(negotiate, peer)
        await anyio.sleep(Limits().probe + 1)
        peer.answers(peer.asked("server/discover"), MODERN_HELLO)

    assert peer.session.version == MODERN
    assert not peer.session.probe_ignored
    assert peer.methods == ["server/discover", "initialize"]


async def test_a_server_that_refuses_the_probe_late_is_greeted_once() -> None:
    peer = Peer(initialize=LEGACY_HELLO)
    hello = peer.script.pop("initialize")

    async with anyio.create_task_group() as tg:
        tg.start_soon(negotiate, peer)
        await anyio.sleep(Limits().probe + 1)
        peer.answers(peer.asked("server/discover"), REFUSED)
        await anyio.sleep(1)
        assert isinstance(hello, dict)
        peer.answers(peer.asked("initialize"), hello)

    assert peer.session.version == HANDSHAKE
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized"]


async def test_a_server_that_is_slow_to_shake_hands_is_greeted_once() -> None:
    peer = Peer(server_discover=REFUSED)

    async with anyio.create_task_group() as tg:
        tg.start_soon(negotiate, peer)
        await anyio.sleep(Limits().probe + 1)
        peer.answers(peer.asked("initialize"), LEGACY_HELLO)
        await anyio.sleep(1)
        tg.cancel_scope.cancel()

    assert peer.methods == ["server/discover", "initialize", "notifications/initialized"]


async def test_a_server_known_to_bear_no_probe_is_greeted_at_once() -> None:
    peer = Peer(initialize=LEGACY_HELLO)

    session = await negotiate(peer, probe=False)

    assert session.version == HANDSHAKE
    assert peer.methods == ["initialize", "notifications/initialized"]


# Pinned protocols.


async def test_a_server_that_bore_no_probe_and_now_refuses_the_handshake_is_asked_again() -> None:
    peer = Peer(initialize=REFUSED, server_discover=MODERN_HELLO)

    session = await negotiate(peer, probe=False)

    assert session.modern
    assert peer.methods == ["initialize", "server/discover"]


async def test_a_server_that_refuses_to_renew_its_session_is_not_asked_for_its_era() -> None:
    peer = Peer(initialize=LEGACY_HELLO)
    await negotiate(peer, probe=False)
    peer.script["initialize"] = REFUSED

    with pytest.raises(SessionFailed, match="the server refused the handshake"):
        await negotiate(peer, probe=False)

    assert "server/discover" not in peer.methods


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="silence"),
        pytest.param(REFUSED, id="refused"),
        pytest.param({"result": "hello"}, id="nonsense"),
        pytest.param({"result": {"supportedVersions": ["2031-01-01"]}}, id="another era"),
    ],
)
async def test_a_handshake_that_is_refused_stays_so_when_the_probe_leads_nowhere(
    answer: Answer | None,
) -> None:
    script: dict[str, Answer] = {} if answer is None else {"server_discover": answer}
    peer = Peer(initialize=REFUSED, **script)

    with pytest.raises(SessionFailed, match="the server refused the handshake: cannot find this method"):
        await negotiate(peer, probe=False)


async def test_with_the_handshake_pinned_there_is_no_probe() -> None:
    peer = Peer(server_discover=MODERN_HELLO, initialize=LEGACY_HELLO)
    peer.session.protocol = "2025-11-25"

    assert (await negotiate(peer)).version == HANDSHAKE
    assert "server/discover" not in peer.methods


async def test_with_the_modern_era_pinned_there_is_no_handshake() -> None:
    peer = Peer(server_discover=MODERN_HELLO, initialize=LEGACY_HELLO)
    peer.session.protocol = "2026-07-28"

    assert (await negotiate(peer)).version == MODERN
    assert peer.methods == ["server/discover"]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (
            {"result": {"supportedVersions": [HANDSHAKE]}},
            f"offers {HANDSHAKE}, and protocol is set to {MODERN}",
        ),
        ({"result": {}}, "offers no version"),
        (REFUSED, "refused the handshake: cannot find this method \\(-32601\\)"),
        ({"result": []}, "greeting cannot be read"),
    ],
)
async def test_a_server_without_the_pinned_era_says_so(answer: Answer, complaint: str) -> None:
    peer = Peer(server_discover=answer, initialize=LEGACY_HELLO)
    peer.session.protocol = "2026-07-28"

    with pytest.raises(SessionFailed, match=complaint):
        await negotiate(peer)


# Greetings that fail.


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (
            {"result": {"protocolVersion": "1999-01-01"}},
            "wants protocol '1999-01-01', which is not known here",
        ),
        ({"result": {"protocolVersion": MODERN}}, "is not known here"),
        ({"result": {}}, "wants protocol ''"),
        ({"result": {"protocolVersion": 5}}, "greeting cannot be read"),
        ({"result": None}, "greeting cannot be read"),
        ({"error": {"code": -1, "message": ""}}, "refused the handshake: no message \\(-1\\)"),
        ({"error": "strange"}, 'refused the handshake: .* an error that is not one: "strange"'),
        ({"error": {"code": "strange"}}, "refused the handshake: an error that cannot be read"),
    ],
)
async def test_a_bad_greeting_says_what_is_wrong_with_it(answer: Answer, complaint: str) -> None:
    peer = Peer(server_discover=REFUSED, initialize=answer)

    with pytest.raises(SessionFailed, match=complaint):
        await negotiate(peer)


@pytest.mark.parametrize("probe", [True, False])
async def test_a_program_that_sends_back_what_it_is_sent_is_found_out(probe: bool) -> None:
    with pytest.raises(SessionFailed, match="not an MCP server"):
        await negotiate(Echo(), probe=probe)


@pytest.mark.parametrize("after", [0.0, 6.0], ids=["during the probe", "during the handshake"])
async def test_an_end_during_the_negotiation_is_told_as_such(after: float) -> None:
    peer = Peer()

    async def end() -> None:
        await anyio.sleep(after)
        peer.wire.lose(End("exited with code 3", code=3))

    async with anyio.create_task_group() as tg:
        tg.start_soon(end)
        with pytest.raises(WireLost, match="exited with code 3"):
            await negotiate(peer)


async def test_a_server_that_was_gone_before_it_was_asked_is_lost() -> None:
    peer = Peer(server_discover=MODERN_HELLO)
    peer.wire.lose(End("exited with code 3", code=3))

    with pytest.raises(WireLost, match="it exited with code 3"):
        await negotiate(peer)
