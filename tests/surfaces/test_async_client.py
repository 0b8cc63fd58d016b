"""The async client against a scripted daemon on a real socket, on asyncio and on trio."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from supervisor import errors
from supervisor.client import Client
from supervisor.errors import DaemonUnreachable
from supervisor.surfaces.exchange import Progress
from tests.cli_support import (
    WAIT,
    Answer,
    Connection,
    Message,
    ScriptedDaemon,
    hang_up,
    say_nothing,
    scripted_daemon,
)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


async def ask(directory: Path, answer: Answer) -> Any:
    with anyio.fail_after(WAIT), scripted_daemon(directory, {"ask": answer}) as daemon:
        async with Client(daemon.path) as client:
            return await client.request("ask", {"key": 1})


def answer_backwards(expected: int) -> Callable[[Connection, Message], None]:
    """Wait for so many requests, then answer the last one first, each with its own params."""
    waiting: list[Message] = []

    def answer(connection: Connection, message: Message) -> None:
        waiting.append(message)
        if len(waiting) == expected:
            for each in reversed(waiting):
                connection.send({"id": each["id"], "result": each["params"]})

    return answer


def complain(connection: Connection, message: Message) -> None:
    connection.send({"id": None, "error": {"code": -32600, "message": "cannot read that line"}})


def tell_progress(connection: Connection, message: Message) -> None:
    token = message["params"]["_meta"]["progressToken"]
    for told in (
        {"progressToken": "another's"},
        {"progressToken": 99},
        {"progressToken": token, "progress": 1},
    ):
        connection.send({"method": "notifications/progress", "params": told})


async def test_a_result_comes_back(tmp_path: Path) -> None:
    assert await ask(tmp_path, {"result": {"value": 10**30}}) == {"value": 10**30}


async def test_tasks_that_ask_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    answers: dict[int, Any] = {}

    async def one(client: Client, number: int) -> None:
        answers[number] = await client.request("ask", {"number": number})

    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"ask": answer_backwards(50)}) as daemon:
        async with Client(daemon.path) as client, anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(one, client, number)

    assert answers == {number: {"number": number} for number in range(50)}


async def test_a_typed_error_leaves_the_block_as_it_is(tmp_path: Path) -> None:
    error = {"code": -32003, "message": "cannot ask", "data": {"server": "files"}}

    with pytest.raises(errors.ServerUnavailable, match="cannot ask") as caught:
        await ask(tmp_path, {"error": error})

    assert caught.value.data == {"server": "files"}


async def test_an_exception_of_the_caller_is_not_wrapped(tmp_path: Path) -> None:
    with scripted_daemon(tmp_path, {}) as daemon, pytest.raises(KeyError, match="mine"):
        async with Client(daemon.path):
            raise KeyError("mine")


async def give_up_slow(client: Client, daemon: ScriptedDaemon) -> None:
    """Ask something that is not answered, and cancel that once the daemon has it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.request, "slow")
        assert await anyio.to_thread.run_sync(daemon.arrived.wait, WAIT)
        tasks.cancel_scope.cancel()


async def test_a_cancelled_request_is_cancelled_at_the_daemon_and_the_client_goes_on(tmp_path: Path) -> None:
    with (
        anyio.fail_after(WAIT),
        scripted_daemon(tmp_path, {"slow": say_nothing, "ask": {"result": 2}}) as daemon,
    ):
        async with Client(daemon.path) as client:
            await give_up_slow(client, daemon)
            assert await client.request("ask") == 2

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


async def test_cancelling_the_whole_block_ends_it(tmp_path: Path) -> None:
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"slow": say_nothing}) as daemon:
        with anyio.move_on_after(0.01) as scope:
            async with Client(daemon.path) as client:
                await client.request("slow")

    assert scope.cancelled_caught


async def test_a_late_answer_reaches_nobody(tmp_path: Path) -> None:
    def late(connection: Connection, message: Message) -> None:
        connection.send({"id": 1, "result": "too late"})
        connection.send({"id": "odd", "result": "nobody's"})
        connection.send({"result": "without an id"})
        connection.send({"method": "notifications/other"})
        connection.send({"id": message["id"], "result": "mine"})

    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"slow": say_nothing, "ask": late}) as daemon:
        async with Client(daemon.path) as client:
            await give_up_slow(client, daemon)
            assert await client.request("ask") == "mine"


async def test_a_call_carries_only_the_options_that_were_given(tmp_path: Path) -> None:
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"tools/call": {"result": {}}}) as daemon:
        async with Client(daemon.path) as client:
            await client.call("x")
            await client.call(
                "x", {"a": 1}, timeout=2.5, approved=True, agent="me", patterns=["x*"], flatten=True
            )

    options = {"timeout": 2.5, "approved": True, "agent": "me", "tools": ["x*"], "flatten": True}
    assert [message["params"] for message in daemon.seen] == [
        {"name": "x", "arguments": {}},
        {"name": "x", "arguments": {"a": 1}, **options},
    ]


async def test_tools_and_servers_are_unpacked(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {
        "tools/list": {"result": {"tools": [{"name": "x"}]}},
        "servers/list": {"result": {"servers": [{"name": "files"}]}},
        "servers/get": {"result": {"name": "files", "pid": 7}},
    }
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, answers) as daemon:
        async with Client(daemon.path) as client:
            assert await client.tools(agent="me", patterns=["x"], server="files") == [{"name": "x"}]
            assert await client.servers() == [{"name": "files"}]
            assert await client.server("files") == {"name": "files", "pid": 7}

    assert daemon.asked("tools/list") == {"agent": "me", "tools": ["x"], "server": "files"}


async def test_progress_is_told_to_who_asked(tmp_path: Path) -> None:
    def work(connection: Connection, message: Message) -> None:
        tell_progress(connection, message)
        connection.send({"id": message["id"], "result": {"content": []}})

    heard: list[Progress] = []
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"tools/call": work}) as daemon:
        async with Client(daemon.path) as client:
            await client.call("x", on_progress=heard.append)

    assert heard == [Progress(1, None, None)]


async def test_a_listener_that_fails_cancels_its_own_call_only(tmp_path: Path) -> None:
    def fail(progress: Progress) -> None:
        raise ValueError(progress)

    answers: dict[str, Answer] = {"tools/call": tell_progress, "ask": {"result": 2}}
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, answers) as daemon:
        async with Client(daemon.path) as client:
            with pytest.raises(ValueError, match="progress=1"):
                await client.call("x", on_progress=fail)
            assert await client.request("ask") == 2

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


async def test_a_call_that_the_daemon_forgets_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.surfaces.exchange.GRACE", 0.01)
    answers: dict[str, Answer] = {"tools/call": say_nothing, "ask": {"result": 2}}
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, answers) as daemon:
        async with Client(daemon.path) as client:
            with pytest.raises(DaemonUnreachable, match="cannot get an answer to tools/call within"):
                await client.call("x", timeout=0.01)
            await client.request("ask")

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


async def test_everyone_who_waits_hears_that_the_daemon_is_gone(tmp_path: Path) -> None:
    refused: list[str] = []

    async def one(client: Client) -> None:
        with pytest.raises(DaemonUnreachable) as caught:
            await client.request("slow")
        refused.append(str(caught.value))

    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"slow": say_nothing, "end": hang_up}) as daemon:
        async with Client(daemon.path) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, client)
                tasks.start_soon(one, client)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(DaemonUnreachable, match="cannot learn what became of end"):
                    await client.request("end")
            with pytest.raises(DaemonUnreachable, match="cannot send ask: the daemon closed the connection"):
                await client.request("ask")

    assert len(refused) == 2


async def test_an_error_without_an_id_belongs_to_the_only_request_in_flight(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest, match="cannot read that line"):
        await ask(tmp_path, complain)


async def test_an_error_without_an_id_is_taken_for_the_latest_and_costs_no_other_request(
    tmp_path: Path,
) -> None:
    waiting: list[Message] = []

    def answer_all(connection: Connection, message: Message) -> None:
        for each in (*waiting, message):
            connection.send({"id": each["id"], "result": each["method"]})

    answers: dict[str, Answer] = {
        "slow": lambda _, message: waiting.append(message),
        "bad": complain,
        "ask": answer_all,
    }
    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, answers) as daemon:
        async with Client(daemon.path) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(expect, client, "slow")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(DaemonUnreachable, match="became of bad: cannot read that line"):
                await client.request("bad")
            await expect(client, "ask")

    assert daemon.asked("notifications/cancelled") == {"requestId": 2}


async def expect(client: Client, method: str) -> None:
    assert await client.request(method) == method


async def test_the_last_word_of_the_daemon_is_why_the_connection_ended(tmp_path: Path) -> None:
    def refuse(connection: Connection, message: Message) -> None:
        complain(connection, message)
        connection.close()

    async def one(client: Client) -> None:
        with pytest.raises(DaemonUnreachable, match="became of slow: cannot read that line"):
            await client.request("slow")

    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"slow": say_nothing, "bad": refuse}) as daemon:
        async with Client(daemon.path) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(one, client)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(DaemonUnreachable, match="became of bad: cannot read that line"):
                await client.request("bad")


async def test_a_word_that_nobody_waits_for_is_why_nothing_can_be_asked(tmp_path: Path) -> None:
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as listener, anyio.fail_after(WAIT):
        listener.bind(path)
        listener.listen()
        async with Client(path) as client:
            with listener.accept()[0] as refused:
                refused.sendall(
                    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32007,"message":"cannot serve"}}\n'
                )
            while not client._end:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(DaemonUnreachable, match="cannot send ask: cannot serve"):
                await client.request("ask")


async def test_what_is_no_json_rpc_is_named(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="does not speak JSON-RPC"):
        await ask(tmp_path, lambda connection, message: connection.send_bytes(b"HTTP/1.1 400\n"))


async def test_a_request_larger_than_the_sockets_buffer_keeps_its_place(tmp_path: Path) -> None:
    with anyio.fail_after(WAIT * 4), scripted_daemon(tmp_path, {"ask": answer_backwards(2)}) as daemon:
        async with Client(daemon.path) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, "ask", {"padding": "x" * 5_000_000})
            await anyio.wait_all_tasks_blocked()
            await client.request("ask", {"small": True})

    assert [len(message["params"]) for message in daemon.seen] == [1, 1]
    assert daemon.seen[1]["params"] == {"small": True}


async def test_a_daemon_that_goes_away_under_a_large_request_is_noticed(tmp_path: Path) -> None:
    path = str(tmp_path / "deaf.sock")
    with socket.socket(socket.AF_UNIX) as deaf, anyio.fail_after(WAIT):
        deaf.bind(path)
        deaf.listen()
        async with Client(path) as client, anyio.create_task_group() as tasks:
            accepted = deaf.accept()[0]
            tasks.start_soon(_expect_no_account, client)
            await anyio.wait_all_tasks_blocked()
            accepted.close()


async def _expect_no_account(client: Client) -> None:
    with pytest.raises(DaemonUnreachable, match="cannot learn what became of ask: the connection"):
        await client.request("ask", {"padding": "x" * 5_000_000})


async def test_a_request_after_the_daemon_hung_up_cannot_be_sent(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        async with Client(path) as client:
            listener.accept()[0].close()
            with pytest.raises(DaemonUnreachable, match="cannot send ask: Broken pipe"):
                await client.request("ask")


async def test_outside_its_block_a_client_asks_nothing(tmp_path: Path) -> None:
    with scripted_daemon(tmp_path, {}) as daemon:
        client = Client(daemon.path)
        with pytest.raises(DaemonUnreachable, match="outside its 'async with'"):
            await client.request("ask")
        async with client:
            pass
        with pytest.raises(DaemonUnreachable, match="this client is closed"):
            await client.request("ask")


async def test_who_still_waits_when_the_client_is_closed_is_told(tmp_path: Path) -> None:
    async def one(client: Client) -> None:
        with pytest.raises(DaemonUnreachable, match="this client is closed"):
            await client.request("slow")

    with anyio.fail_after(WAIT), scripted_daemon(tmp_path, {"slow": say_nothing}) as daemon:
        async with anyio.create_task_group() as tasks, Client(daemon.path) as client:
            tasks.start_soon(one, client)
            await anyio.wait_all_tasks_blocked()


async def test_without_a_socket_the_error_says_how_to_start_the_daemon(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match=r"there is no socket at .*mcp-supervisor run"):
        async with Client(str(tmp_path / "none.sock")):
            pass


async def test_a_daemon_that_takes_no_connections_does_not_hold_the_client(tmp_path: Path) -> None:
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as busy, anyio.fail_after(WAIT):
        busy.bind(path)
        busy.listen(0)
        async with Client(path):
            with pytest.raises(DaemonUnreachable, match="does not take connections"):
                async with Client(path, connect_timeout=0.02):
                    pass
            with anyio.move_on_after(0.02) as scope:
                async with Client(path):
                    pass

    assert scope.cancelled_caught
