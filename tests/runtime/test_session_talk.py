"""Listing and small talk with a scripted server, on a virtual clock: no second is spent."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from trio.testing import MockClock

from supervisor.core.eras import MODERN
from supervisor.core.phases import End
from supervisor.runtime.conversation import follow_changes
from supervisor.runtime.session import Limits, Session, SessionFailed, WireLost
from tests.runtime.peer import (
    LEGACY_HELLO,
    MODERN_HELLO,
    REFUSED,
    TOOLS,
    UNKNOWN_METHOD,
    Answer,
    Peer,
    negotiate,
)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


# Listing.


def paged(*pages: list[str], last: str | None = None) -> Callable[[dict[str, Any]], Answer]:
    """An answer to `tools/list` with cursors that count the pages."""

    def answer(params: dict[str, Any]) -> Answer:
        number = int(params.get("cursor", 0))
        following = str(number + 1) if number + 1 < len(pages) else last
        tools = [{"name": name} for name in pages[number]]
        return {"result": {"tools": tools, **({"nextCursor": following} if following is not None else {})}}

    return answer


async def listed(peer: Peer) -> list[str]:
    with anyio.fail_after(60):
        return [msgspec.json.decode(tool)["name"] for tool in await peer.session.list_tools()]


@pytest.mark.parametrize("pages", [[[]], [["a"]], [["a", "b"], ["c"]], [["a"], [], ["b"]]])
async def test_a_list_is_read_to_its_last_page(pages: list[list[str]]) -> None:
    peer = Peer(tools_list=paged(*pages))

    assert await listed(peer) == [name for page in pages for name in page]


async def test_a_definition_passes_byte_for_byte() -> None:
    peer = Peer()
    definition = b'{"name": "a", "x": 1.0, "y": 1000000000000000000000000000000}'
    found: list[msgspec.Raw] = []

    async def collect() -> None:
        found.extend(await peer.session.list_tools())

    async with anyio.create_task_group() as tg:
        tg.start_soon(collect)
        await anyio.wait_all_tasks_blocked()
        peer.wire.feed(b'{"id":1,"result":{"tools":[%s]}}\n' % definition)

    assert [bytes(raw) for raw in found] == [definition]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (paged(["a"], ["b"], last="1"), "repeats the cursor '1'"),
        (lambda _: {"result": {"tools": [], "nextCursor": "x" * 999}}, "repeats the cursor 'x{80}'"),
        (lambda _: {"error": UNKNOWN_METHOD}, "cannot list its tools: cannot find this method"),
        (lambda _: {"result": {"tools": "none"}}, "tool list cannot be read"),
        (lambda _: {"result": {}}, "tool list cannot be read"),
    ],
)
async def test_a_list_that_cannot_be_read_says_why(
    answer: Callable[[dict[str, Any]], Answer], complaint: str
) -> None:
    peer = Peer(server_discover=MODERN_HELLO, tools_list=answer)
    await negotiate(peer)

    with pytest.raises(SessionFailed, match=complaint):
        await listed(peer)


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        (Limits(pages=5), "more than 5 pages"),
        (Limits(tools=7), "more than 7 tools"),
        (Limits(list_bytes=99), "longer than 99 bytes"),
    ],
)
async def test_a_list_without_end_is_given_up(limits: Limits, complaint: str) -> None:
    peer = Peer(tools_list=paged(*(["a", "b"] for _ in range(10_000))))
    peer.session.limits = limits

    with pytest.raises(SessionFailed, match=complaint):
        await listed(peer)

    assert len(peer.received) <= 5


@pytest.mark.parametrize(("pages", "fits"), [([7], True), ([8], False), ([4, 3], True), ([4, 4], False)])
async def test_the_limit_holds_for_the_only_and_the_last_page_too(pages: list[int], fits: bool) -> None:
    peer = Peer(tools_list=paged(*(["a"] * size for size in pages)))
    peer.session.limits = Limits(tools=7)

    if fits:
        assert len(await listed(peer)) == 7
    else:
        with pytest.raises(SessionFailed, match="it lists more than 7 tools"):
            await listed(peer)


async def test_a_server_that_offers_no_tools_and_knows_no_list_has_none() -> None:
    peer = Peer(server_discover={"result": {"supportedVersions": [MODERN]}}, tools_list=REFUSED)
    await negotiate(peer)

    assert await listed(peer) == []


async def test_an_end_during_the_listing_is_told_as_such() -> None:
    peer = Peer(tools_list=paged(["a"]))
    peer.wire.lose(End("exited with code 3", code=3))

    with pytest.raises(WireLost):
        await listed(peer)


# What the eras want of us.


async def test_every_modern_request_describes_itself() -> None:
    peer = Peer(server_discover=MODERN_HELLO, tools_list=paged(["a"], ["b"]))
    await negotiate(peer)
    await listed(peer)

    for message in peer.received:
        meta = message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mcp-supervisor"
    assert b'"io.modelcontextprotocol/protocolVersion":' in peer.session.stamp


async def test_after_a_handshake_requests_are_not_stamped() -> None:
    peer = Peer(server_discover=REFUSED, initialize=LEGACY_HELLO, tools_list=paged(["a"]))
    await negotiate(peer)
    await listed(peer)

    assert peer.asked("tools/list")["params"] == {}
    assert peer.session.stamp == b""


@pytest.mark.parametrize(
    ("capabilities", "subscribed"),
    [
        (TOOLS, True),
        ({"tools": {"listChanged": False}}, False),
        ({"tools": {}}, False),
        ({}, False),
        ({"tools": 3}, False),
    ],
)
async def test_a_modern_server_that_announces_changes_is_asked_to(
    capabilities: dict[str, Any], subscribed: bool
) -> None:
    hello = {"result": {"supportedVersions": [MODERN], "capabilities": capabilities}}
    peer = Peer(server_discover=hello)
    await negotiate(peer)

    peer.session.subscribe()

    assert ("subscriptions/listen" in peer.methods) is subscribed


async def test_a_server_of_the_handshake_era_tells_of_changes_unasked() -> None:
    peer = Peer(server_discover=REFUSED, initialize=LEGACY_HELLO)
    await negotiate(peer)

    peer.session.subscribe()

    assert "subscriptions/listen" not in peer.methods


# What a server says of its own accord.


async def test_a_change_of_tools_is_heard_however_often_it_is_told() -> None:
    peer = Peer()
    change = {"method": "notifications/tools/list_changed"}
    peer.says(change)
    peer.says(change)

    with anyio.fail_after(1):
        await peer.session.changed()
    with anyio.move_on_after(1) as quiet:
        await peer.session.changed()

    assert quiet.cancelled_caught


class Flaky(Session):
    """Its listings are lost on the way, so many times; each takes a while."""

    def __init__(self, peer: Peer, *, lost: int = 0, takes: float = 0.0, dies: bool = False) -> None:
        super().__init__(peer.wire)
        self._peer, self._lost, self._takes, self._dies = peer, lost, takes, dies
        peer.session = self
        self.listings: list[float] = []

    async def list_tools(self) -> list[msgspec.Raw]:
        self.listings.append(anyio.current_time())
        await anyio.sleep(self._takes)
        if self._dies:
            self._peer.wire.lose(End("exited with code 3", code=3))
        if len(self.listings) <= self._lost:
            raise WireLost("no connection")
        return await super().list_tools()


CHANGE = {"method": "notifications/tools/list_changed"}


async def test_a_listing_that_is_lost_on_the_way_is_tried_again_until_it_comes() -> None:
    peer, tools = Peer(tools_list=paged(["a"])), list[int]()
    session = Flaky(peer, lost=3)
    began = anyio.current_time()

    async def on_tools(definitions: list[msgspec.Raw]) -> None:
        tools.append(len(definitions))

    with anyio.move_on_after(60):
        peer.says(CHANGE)
        await follow_changes("s", session, on_tools, str)

    assert tools == [1]
    assert [at - began for at in session.listings] == pytest.approx([0.0, 0.5, 1.5, 3.5])


async def test_the_changes_of_a_server_that_is_gone_are_not_followed() -> None:
    peer = Peer()
    session = Flaky(peer, lost=1, dies=True)

    with anyio.fail_after(60):
        peer.says(CHANGE)
        await follow_changes("s", session, none_wanted, str)

    assert len(session.listings) == 1


async def none_wanted(_definitions: list[msgspec.Raw]) -> None:
    raise AssertionError("nothing was listed")


@pytest.mark.parametrize(("takes", "listings"), [(0.0, 200), (0.1, 10), (1.0, 1)])
async def test_a_server_whose_tools_change_all_the_time_is_listed_now_and_then(
    takes: float, listings: int
) -> None:
    peer = Peer(tools_list=paged(["a"]))
    session = Flaky(peer, takes=takes)

    async def on_tools(_definitions: list[msgspec.Raw]) -> None: ...

    with anyio.move_on_after(10):
        async with anyio.create_task_group() as tg:
            tg.start_soon(follow_changes, "s", session, on_tools, str)
            while True:
                peer.says(CHANGE)
                await anyio.sleep(0.01)

    assert len(session.listings) == pytest.approx(listings, abs=listings / 10 + 1)


@pytest.mark.parametrize("identity", [1, "one", 1.5])
async def test_a_ping_is_answered(identity: object) -> None:
    peer = Peer()

    peer.says({"id": identity, "method": "ping"})

    assert peer.received == [{"jsonrpc": "2.0", "id": identity, "result": {}}]


@pytest.mark.parametrize("method", ["sampling/createMessage", "roots/list", "elicitation/create"])
async def test_what_we_do_not_offer_is_declined(method: str) -> None:
    peer = Peer()

    peer.says({"id": "ask-1", "method": method, "params": {}})

    (answer,) = peer.received
    assert answer["id"] == "ask-1"
    assert answer["error"] == {"code": -32601, "message": f"{method} is not supported by this client"}


@pytest.mark.parametrize("roots", [(), ("file:///a", "file:///b")])
async def test_roots_are_told_where_there_are_any(roots: tuple[str, ...]) -> None:
    peer = Peer()
    peer.session.roots = roots

    peer.says({"id": 1, "method": "roots/list"})

    (answer,) = peer.received
    assert answer["result"] == {"roots": [{"uri": uri} for uri in roots]}


async def test_progress_is_passed_on_and_other_notifications_are_ignored() -> None:
    peer = Peer()
    heard: list[bytes] = []
    peer.session.on_progress = lambda params: heard.append(bytes(params))

    peer.says({"method": "notifications/message", "params": {"data": "hello"}})
    peer.says({"method": "notifications/progress", "params": {"progress": 1}})

    assert heard == [b'{"progress": 1}']
    assert peer.received == []
