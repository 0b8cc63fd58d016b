"""The client against a scripted daemon on a real socket."""

import json
import os
import select
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from supervisor import errors
from supervisor.errors import DaemonUnreachable, ForeignError, ServerUnavailable, SupervisorError
from supervisor.surfaces.client import SyncClient
from tests.cli_support import Answer, Connection, Message, hang_up, say_nothing, scripted_daemon
from tests.e2e.support import until


def ask(directory: Path, answer: Answer, *, timeout: float = 5.0) -> Any:
    with scripted_daemon(directory, {"ask": answer}) as daemon, SyncClient(daemon.path) as client:
        return client.request("ask", {"key": 1}, timeout=timeout)


def listen(listener: socket.socket, path: str) -> str:
    listener.bind(path)
    listener.listen()
    return path


def test_a_result_comes_back(tmp_path: Path) -> None:
    assert ask(tmp_path, {"result": {"value": 10**30}}) == {"value": 10**30}


def test_requests_on_one_connection_have_ids_of_their_own(tmp_path: Path) -> None:
    with (
        scripted_daemon(tmp_path, {"ask": {"result": {}}}) as daemon,
        SyncClient(daemon.path) as client,
    ):
        for _ in range(3):
            client.request("ask", timeout=5.0)

    assert [message["id"] for message in daemon.seen] == [1, 2, 3]
    assert daemon.seen[0] == {"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {}}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-32600, errors.InvalidRequest),
        (-32601, errors.UnknownMethod),
        (-32602, errors.InvalidParams),
        (-32603, errors.SupervisorError),
        (-32001, errors.UnknownServer),
        (-32002, errors.UnknownTool),
        (-32003, errors.ServerUnavailable),
        (-32004, errors.ServerDied),
        (-32005, errors.TimedOut),
        (-32006, errors.Cancelled),
        (-32007, errors.Busy),
        (-32008, errors.RefusedByPolicy),
        (-32009, errors.TooLarge),
        (-32010, errors.BadConfig),
    ],
)
def test_an_error_has_the_type_of_its_code(tmp_path: Path, code: int, kind: type[SupervisorError]) -> None:
    with pytest.raises(SupervisorError, match=r"^cannot, sorry$") as caught:
        ask(tmp_path, {"error": {"code": code, "message": "cannot, sorry"}})

    assert type(caught.value) is kind


def test_all_data_of_an_error_is_kept(tmp_path: Path) -> None:
    known = {"server": "files", "message": "clashes with nothing", "exit": None, "stderr": ["one", "two"]}

    with pytest.raises(ServerUnavailable) as caught:
        ask(tmp_path, {"error": {"code": -32003, "message": "cannot call", "data": known}})

    assert caught.value.data == known


@pytest.mark.parametrize(
    ("error", "code", "message", "kept"),
    [
        (
            {"code": -32042, "message": "go to this page", "data": [1]},
            -32042,
            "go to this page",
            {"data": [1]},
        ),
        ({"code": "odd", "message": "m"}, 0, "m", {}),
        ("not even an object", 0, "cannot do that: 'not even an object'", {}),
    ],
)
def test_an_error_of_a_server_passes_through(
    tmp_path: Path, error: Any, code: int, message: str, kept: dict[str, Any]
) -> None:
    with pytest.raises(ForeignError) as caught:
        ask(tmp_path, {"error": error})

    assert (caught.value.answered_code, str(caught.value), caught.value.data) == (code, message, kept)


def test_an_error_without_an_id_belongs_to_the_request_in_flight(tmp_path: Path) -> None:
    def refuse(connection: Connection, message: Message) -> None:
        connection.send({"id": None, "error": {"code": -32600, "message": "cannot read that line"}})

    with pytest.raises(errors.InvalidRequest, match="cannot read that line"):
        ask(tmp_path, refuse)


def test_notifications_are_handed_over_and_other_messages_are_passed_by(tmp_path: Path) -> None:
    def answer(connection: Connection, message: Message) -> None:
        connection.send({"id": 99, "result": "of another time"})
        connection.send({"id": "x", "method": "a request, which a client does not serve", "params": {}})
        connection.send({"method": "notifications/progress", "params": {"progress": 1}})
        connection.send({"id": message["id"], "result": "mine"})

    heard: list[Message] = []
    with scripted_daemon(tmp_path, {"ask": answer}) as daemon, SyncClient(daemon.path) as client:
        result = client.request("ask", timeout=5.0, on_notification=heard.append)
        unheard = client.request("ask", timeout=5.0)

    assert (result, unheard) == ("mine", "mine")
    assert heard == [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}]


def test_a_large_answer_arrives_whole(tmp_path: Path) -> None:
    text = "é" * 8_000_000

    assert ask(tmp_path, {"result": text}, timeout=30.0) == text


def test_an_answer_in_crumbs_is_put_together(tmp_path: Path) -> None:
    def answer(connection: Connection, message: Message) -> None:
        for byte in json.dumps({"id": message["id"], "result": "whole"}).encode() + b"\n":
            connection.send_bytes(bytes([byte]))

    assert ask(tmp_path, answer) == "whole"


@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 400 Bad Request\n", b"[]\n", b"9" * 5000 + b"\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_json_rpc_is_named(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(DaemonUnreachable, match="does not speak JSON-RPC"):
        ask(tmp_path, lambda connection, message: connection.send_bytes(line))


def test_a_daemon_that_hangs_up_leaves_the_outcome_open(tmp_path: Path) -> None:
    with pytest.raises(
        DaemonUnreachable, match="cannot learn what became of ask: the daemon closed the connection"
    ):
        ask(tmp_path, hang_up)


def test_a_request_that_gets_no_answer_in_time_is_cancelled(tmp_path: Path) -> None:
    with (
        scripted_daemon(tmp_path, {"ask": say_nothing, "again": {"result": 2}}) as daemon,
        SyncClient(daemon.path) as client,
    ):
        with pytest.raises(DaemonUnreachable, match=r"cannot get an answer to ask within 0\.05 s"):
            client.request("ask", timeout=0.05)
        assert client.request("again", timeout=5.0) == 2

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


def test_no_time_at_all_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="cannot get an answer"):
        ask(tmp_path, {"result": {}}, timeout=0.0)


def test_ctrl_c_cancels_the_request(tmp_path: Path) -> None:
    def begin(connection: Connection, message: Message) -> None:
        connection.send({"method": "notifications/progress", "params": {}})

    with (
        scripted_daemon(tmp_path, {"ask": begin}) as daemon,
        SyncClient(daemon.path) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        client.request("ask", timeout=5.0, on_notification=lambda *_: signal.raise_signal(signal.SIGINT))

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


def test_ctrl_c_that_interrupts_no_wait_is_heeded_all_the_same(tmp_path: Path) -> None:
    def take_the_signal(connection: Connection, message: Message) -> None:
        """In this thread, so that it wakes nobody; one in the moment before the wait does not either."""
        waiting = Path(f"/proc/self/task/{threading.main_thread().native_id}/wchan")
        until(lambda: "poll" in waiting.read_text())
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with (
        scripted_daemon(tmp_path, {"ask": take_the_signal}) as daemon,
        SyncClient(daemon.path) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        client.request("ask", timeout=60.0)

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


def test_ctrl_c_in_the_middle_of_a_line_ends_the_connection(tmp_path: Path) -> None:
    def interrupt_when_bytes_arrive() -> None:
        accepted = deaf.accept()[0]
        select.select([accepted], [], [], 5.0)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        arrived.append(accepted)

    arrived: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as deaf, SyncClient(listen(deaf, str(tmp_path / "deaf"))) as client:
        peer = threading.Thread(target=interrupt_when_bytes_arrive)
        peer.start()
        with pytest.raises(KeyboardInterrupt):
            client.request("ask", {"padding": "x" * 10_000_000}, timeout=5.0)
        peer.join(5.0)
        with pytest.raises(DaemonUnreachable, match="cannot send ask: Bad file descriptor"):
            client.request("ask", timeout=5.0)
        arrived[0].close()


def test_a_request_after_the_daemon_hung_up_cannot_be_sent(tmp_path: Path) -> None:
    with scripted_daemon(tmp_path, {"ask": hang_up}) as daemon, SyncClient(daemon.path) as client:
        assert not client.wait_closed(timeout=0.01)
        client.notify("ask", {}, timeout=5.0)
        assert client.wait_closed(timeout=5.0)
        with pytest.raises(DaemonUnreachable, match="cannot send ask: Broken pipe"):
            client.request("ask", timeout=5.0)


@pytest.mark.parametrize("padding", [0, 5_000_000], ids=["a short request", "a long request"])
def test_the_last_word_of_a_daemon_that_hung_up_is_heard(tmp_path: Path, padding: int) -> None:
    path = str(tmp_path / "full.sock")
    word = {"jsonrpc": "2.0", "id": None, "error": {"code": -32007, "message": "cannot serve more clients"}}
    news = {"jsonrpc": "2.0", "method": "notifications/events", "params": {}}

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with SyncClient(path) as client:
            with listener.accept()[0] as refused:
                refused.sendall(b"".join(json.dumps(each).encode() + b"\n" for each in (news, word)))
            with pytest.raises(errors.Busy, match="cannot serve more clients"):
                client.request("ask", {"padding": "x" * padding})


def test_a_reset_connection_counts_as_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as listener, SyncClient(listen(listener, path)) as client:
        client.notify("never read", {}, timeout=5.0)
        listener.accept()[0].close()
        assert client.wait_closed(timeout=5.0)


def test_without_a_socket_the_error_says_how_to_start_the_daemon(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match=r"there is no socket at .*mcp-supervisor run"):
        SyncClient(str(tmp_path / "none.sock"))


def test_a_socket_without_a_listener_is_said_to_be_stale(tmp_path: Path) -> None:
    path = str(tmp_path / "stale.sock")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(path)

    with pytest.raises(DaemonUnreachable, match="the last daemon there is gone"):
        SyncClient(path)


def test_a_daemon_that_takes_no_connections_does_not_hold_the_client(tmp_path: Path) -> None:
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(path)
        busy.listen(0)
        with SyncClient(path), pytest.raises(DaemonUnreachable, match="does not take connections"):
            SyncClient(path, connect_timeout=0.05)


def test_a_user_without_the_right_is_told_so(tmp_path: Path) -> None:
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        Path(listen(listener, path)).chmod(0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            with pytest.raises(DaemonUnreachable, match="this user may not open"):
                SyncClient(path)
        finally:
            if root:
                os.seteuid(0)


def test_any_other_trouble_is_named(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match=r"cannot reach .*Not a directory; check --socket"):
        SyncClient(os.fspath(Path(__file__) / "control.sock"))
