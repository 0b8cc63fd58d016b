"""News through the async client, against a scripted daemon, on asyncio and on trio."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from supervisor import errors
from supervisor.client import Client
from supervisor.errors import DaemonUnreachable
from tests.cli_support import WAIT, Answer, Connection, Message, hang_up, say_nothing, scripted_daemon

TRANSITION = {"kind": "transition", "server": "files"}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


def publish(*news: Message) -> Callable[[Connection, Message], None]:
    """Answer a subscription, with one piece of news before the answer and the others after it."""

    def answer(connection: Connection, message: Message) -> None:
        first, *rest = news
        connection.send({"method": "notifications/events", "params": first})
        connection.send({"id": message["id"], "result": {"kinds": [], "generation": 1}})
        for each in rest:
            connection.send({"method": "notifications/events", "params": each})

    return answer


async def test_events_come_on_a_connection_of_their_own(tmp_path: Path) -> None:
    lost = {"kind": "lost", "count": 3}
    answers: dict[str, Answer] = {"events/subscribe": publish(TRANSITION, lost), "ask": {"result": 2}}
    heard: list[Message] = []
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, answers) as daemon:
        async with Client(daemon.path) as client:
            async for event in client.events(["transition"]):
                heard.append(event)
                assert await client.request("ask") == 2
                if len(heard) == 2:
                    break

    assert heard == [TRANSITION, lost]
    assert daemon.asked("events/subscribe") == {"kinds": ["transition"]}


async def test_events_are_heard_from_the_beginning_of_their_block(tmp_path: Path) -> None:
    with (
        anyio.fail_after(WAIT),
        scripted_daemon(tmp_path, {"events/subscribe": publish(TRANSITION)}) as daemon,
    ):
        async with Client(daemon.path) as client, client.events() as events:
            assert daemon.asked("events/subscribe") == {}
            assert await anext(events) == TRANSITION


async def test_events_end_with_the_daemon(tmp_path: Path) -> None:
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"events/subscribe": hang_up}) as daemon:
        async with Client(daemon.path) as client:
            with pytest.raises(DaemonUnreachable, match="cannot hear more events: the daemon closed"):
                await anext(client.events())


async def test_events_end_with_their_client(tmp_path: Path) -> None:
    async def listen(client: Client) -> None:
        with pytest.raises(DaemonUnreachable, match="cannot hear more events: this client is closed"):
            await anext(client.events())

    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"events/subscribe": say_nothing}) as daemon:
        async with anyio.create_task_group() as tasks, Client(daemon.path) as client:
            tasks.start_soon(listen, client)
            await anyio.wait_all_tasks_blocked()


async def test_a_kind_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    refused = {"error": {"code": -32602, "message": "cannot accept these params"}}
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"events/subscribe": refused}) as daemon:
        async with Client(daemon.path) as client:
            with pytest.raises(errors.InvalidParams):
                await anext(client.events(["gossip"]))


async def test_events_that_nobody_asked_for_close_without_a_trace(tmp_path: Path) -> None:
    with scripted_daemon(tmp_path, {}) as daemon:
        async with Client(daemon.path) as client:
            client.events()

    assert daemon.seen == []
