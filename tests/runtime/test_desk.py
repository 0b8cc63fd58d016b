"""A server's desk: which calls are sent, which wait, and what goes with them."""

from typing import Any

import msgspec
import pytest
from trio.testing import MockClock

from supervisor.core.eras import MODERN
from supervisor.errors import Busy, Outcome
from supervisor.runtime.admission import ServerDesk, Terms
from supervisor.runtime.calls import Call, CallRequest
from supervisor.runtime.session import Session
from tests.runtime.call_support import Ends, Sent, run_for


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Virtual time."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture
def ends() -> Ends:
    return Ends()


def desk_of(ends: Ends, peer: Sent, terms: Terms) -> ServerDesk:
    """The desk of a ready server whose other end is the peer."""
    desk = ServerDesk(
        "files",
        terms,
        ends.deadlines,
        max_result_bytes=2000,
        account=ends.account,
        resolve=lambda _: b'"read"',
    )
    desk.open(Session(peer.wire))
    return desk


def submit(desk: ServerDesk, reply: Ends, client: str, **fields: Any) -> Call:
    call = Call(desk, CallRequest("files_read", **fields), reply, client, b'"read"')
    desk.submit(call)
    return call


async def test_who_calls_once_waits_for_one_call_of_who_calls_much(ends: Ends) -> None:
    peer = Sent(ends)
    desk = desk_of(ends, peer, Terms(max_concurrency=1))
    for _ in range(10):
        submit(desk, ends, "greedy")
    modest = submit(desk, ends, "modest")

    peer.wire.feed(b'{"id":2,"result":{}}\n')

    assert modest.sent


async def test_a_full_queue_has_room_for_who_waits_for_less_than_others(ends: Ends) -> None:
    greedy, modest = Ends(), Ends()
    desk = desk_of(ends, Sent(ends), Terms(max_concurrency=1, max_queue=4))
    for _ in range(5):
        submit(desk, greedy, "greedy")
    submit(desk, modest, "modest")

    assert [type(error) for error in greedy.heard] == [Busy]
    assert modest.heard == []
    assert desk.queued == 4
    with pytest.raises(Busy):
        submit(desk, greedy, "greedy")


async def test_what_a_client_can_do_is_its_own_to_say_and_all_else_of_the_stamp_is_ours(ends: Ends) -> None:
    peer = Sent(ends)
    desk = desk_of(ends, peer, Terms())
    session = Session(peer.wire)
    session.version = MODERN
    desk.open(session)
    mine: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    submit(
        desk,
        ends,
        "client",
        meta=msgspec.Raw(msgspec.json.encode(mine | {"io.modelcontextprotocol/protocolVersion": "1"})),
    )

    meta = peer.written[-1]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {"form": {}}}
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN


async def test_calls_whose_time_is_over_in_the_queue_are_not_sent(ends: Ends) -> None:
    peer = Sent(ends)
    peer.answer(result={})
    desk = desk_of(ends, peer, Terms(call_timeout=5.0, max_concurrency=1))
    for _ in range(200):
        submit(desk, ends, "client")

    await run_for(ends, 10)

    assert desk.outcomes == {Outcome.TIMED_OUT: 1, Outcome.NOT_SENT: 199}
    assert [message["method"] for message in peer.written[1:]] == ["tools/call", "notifications/cancelled"]
