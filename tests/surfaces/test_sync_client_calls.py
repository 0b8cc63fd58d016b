"""What people ask of the sync client: tools, calls, servers, news, and several things at once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import supervisor.client
from supervisor import errors
from supervisor.client import Progress, SyncClient
from supervisor.errors import DaemonUnreachable, SupervisorError
from tests.cli_support import (
    WAIT,
    Answer,
    Connection,
    Message,
    hang_up,
    say_nothing,
    scripted_daemon,
)

HEAVY = ("anyio", "asyncio", "mcp", "msgspec", "pydantic", "supervisor.runtime", "uvloop")


def test_tools_and_servers_are_unpacked(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {
        "tools/list": {"result": {"tools": [{"name": "x"}]}},
        "servers/list": {"result": {"servers": [{"name": "files"}]}},
        "servers/get": {"result": {"name": "files", "pid": 7}},
    }
    with scripted_daemon(tmp_path, answers) as daemon, SyncClient(daemon.path) as client:
        assert client.tools(agent="me", patterns=["x"], server="files") == [{"name": "x"}]
        assert client.servers() == [{"name": "files"}]
        assert client.server("files") == {"name": "files", "pid": 7}

    assert daemon.asked("tools/list") == {"agent": "me", "tools": ["x"], "server": "files"}


def test_a_call_carries_only_the_options_that_were_given(tmp_path: Path) -> None:
    with (
        scripted_daemon(tmp_path, {"tools/call": {"result": {}}}) as daemon,
        SyncClient(daemon.path) as client,
    ):
        client.call("x")
        client.call("x", {"a": 1}, timeout=2.5, approved=True, agent="me", patterns=["x*"], flatten=True)

    options = {"timeout": 2.5, "approved": True, "agent": "me", "tools": ["x*"], "flatten": True}
    assert [message["params"] for message in daemon.seen] == [
        {"name": "x", "arguments": {}},
        {"name": "x", "arguments": {"a": 1}, **options},
    ]


def work(connection: Connection, message: Message) -> None:
    token = message["params"].get("_meta", {}).get("progressToken", 1)
    for told in ({"progressToken": 99}, {"progressToken": token, "progress": 1, "total": 2, "message": "m"}):
        connection.send({"method": "notifications/progress", "params": told})
    connection.send({"id": message["id"], "result": {"content": []}})


def test_progress_of_this_call_is_told(tmp_path: Path) -> None:
    heard: list[Progress] = []
    with scripted_daemon(tmp_path, {"tools/call": work}) as daemon, SyncClient(daemon.path) as client:
        client.call("x", on_progress=heard.append)
        client.call("x")

    assert heard == [Progress(1, 2, "m")]


def test_a_listener_that_fails_cancels_its_call(tmp_path: Path) -> None:
    def begin(connection: Connection, message: Message) -> None:
        connection.send({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})

    def fail(progress: Progress) -> None:
        raise ValueError(progress)

    answers: dict[str, Answer] = {"tools/call": begin, "ask": {"result": 2}}
    with scripted_daemon(tmp_path, answers) as daemon, SyncClient(daemon.path) as client:
        with pytest.raises(ValueError, match="progress=1"):
            client.call("x", on_progress=fail)
        assert client.request("ask") == 2

    assert daemon.asked("notifications/cancelled") == {"requestId": 1}


def test_a_call_that_the_daemon_forgets_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.surfaces.exchange.GRACE", 0.01)
    with (
        scripted_daemon(tmp_path, {"tools/call": say_nothing}) as daemon,
        SyncClient(daemon.path) as client,
        pytest.raises(DaemonUnreachable, match=r"cannot get an answer to tools/call within 0\.02 s"),
    ):
        client.call("x", timeout=0.01)


def backwards(connection: Connection, message: Message) -> None:
    """Answer three requests when all are there, the last first, the first with an error."""
    if message["id"] == 3:
        connection.send({"id": 3, "result": "third"})
        connection.send({"id": 2, "result": "second"})
        connection.send({"id": 1, "error": {"code": -32001, "message": "cannot find it"}})


def test_several_things_are_asked_at_once_and_answered_as_they_come(tmp_path: Path) -> None:
    with scripted_daemon(tmp_path, {"ask": backwards}) as daemon, SyncClient(daemon.path) as client:
        answers = list(client.requests("ask", [{"n": 0}, {"n": 1}, {"n": 2}]))

    assert answers[:2] == [(2, "third"), (1, "second")]
    assert answers[2][0] == 0
    assert isinstance(answers[2][1], errors.UnknownServer)


def test_what_is_unanswered_when_nobody_waits_any_more_is_cancelled(tmp_path: Path) -> None:
    def answer_first(connection: Connection, message: Message) -> None:
        if message["id"] == 1:
            connection.send({"id": 1, "result": "first"})

    answers: dict[str, Answer] = {"slow": answer_first, "ask": {"result": 2}}
    with scripted_daemon(tmp_path, answers) as daemon, SyncClient(daemon.path) as client:
        coming = client.requests("slow", [{}, {}])
        assert next(coming) == (0, "first")
        del coming
        assert client.request("ask") == 2

    assert daemon.asked("notifications/cancelled") == {"requestId": 2}


def publish(*news: Message) -> Callable[[Connection, Message], None]:
    def answer(connection: Connection, message: Message) -> None:
        first, *rest = news
        connection.send({"method": "notifications/events", "params": first})
        connection.send({"id": message["id"], "result": {"kinds": [], "generation": 1}})
        connection.send({"id": 77, "result": "of another time"})
        for each in rest:
            connection.send({"method": "notifications/events", "params": each})
        connection.close()

    return answer


def test_events_come_on_a_connection_of_their_own_until_the_daemon_ends(tmp_path: Path) -> None:
    news: list[Message] = [{"kind": "transition"}, {"kind": "lost", "count": 3}]
    answers: dict[str, Answer] = {"events/subscribe": publish(*news), "ask": {"result": 2}}
    heard: list[Any] = []

    def listen(client: SyncClient) -> None:
        for event in client.events(["transition"]):
            heard.append(event)
            assert client.request("ask") == 2

    with (
        scripted_daemon(tmp_path, answers) as daemon,
        SyncClient(daemon.path) as client,
        pytest.raises(DaemonUnreachable, match="cannot hear more of events/subscribe: the daemon"),
    ):
        listen(client)

    assert heard == news
    assert daemon.asked("events/subscribe") == {"kinds": ["transition"]}


def test_a_subscription_can_be_left(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {"events/subscribe": publish({"kind": "reload"})}
    with (
        scripted_daemon(tmp_path, answers) as daemon,
        SyncClient(daemon.path) as client,
        client.events() as events,
    ):
        assert next(events) == {"kind": "reload"}
        assert events.answer == {"kinds": [], "generation": 1}


@pytest.mark.parametrize("answer", [{"error": {"code": -32602, "message": "cannot"}}, hang_up])
def test_a_subscription_that_is_refused_leaves_nothing_open(tmp_path: Path, answer: Answer) -> None:
    with (
        scripted_daemon(tmp_path, {"events/subscribe": answer}) as daemon,
        SyncClient(daemon.path) as client,
        pytest.raises(SupervisorError, match="cannot"),
    ):
        client.events(["gossip"])


def test_the_public_module_loads_nothing_heavy_and_its_async_half_on_demand(
    record_property: Callable[[str, object], None],
) -> None:
    """The reason for an import of about 60 ms of CPU, the interpreter included."""
    script = (
        "import json, sys, time; import supervisor.client\n"
        f"heavy = lambda: [name for name in {HEAVY!r} if name in sys.modules]\n"
        "first = [time.process_time(), heavy()]\n"
        "from supervisor.client import Client\n"
        "print(json.dumps([*first, heavy()]))\n"
    )
    environ = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, check=True, timeout=WAIT * 4
    )

    cpu, before, after = json.loads(done.stdout)
    record_property("cpu_seconds", cpu)
    assert (before, after) == ([], ["anyio"])


def test_the_public_module_has_all_that_it_promises_and_no_more() -> None:
    assert all(getattr(supervisor.client, name) for name in supervisor.client.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Clint'"):
        _ = supervisor.client.Clint
