"""A call ends, with a true account of what happened to it; and a call that nobody waits for is cancelled."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Client, Daemon, Launcher, fake, until

FOR_EVER = 1000
MORTALS = ("crashing", "killed", "gone", "counting", "crowded")
"""Servers that die, each in a test of its own."""


@dataclass(frozen=True, slots=True)
class FakeLog:
    """What the fake server got since the test began."""

    path: Path
    begin: int = 0

    def received(self, method: str) -> list[Any]:
        written = self.path.read_bytes()[self.begin :]
        lines = [json.loads(line) for line in written[: written.rfind(b"\n") + 1].splitlines()]
        messages = [line["received"] for line in lines if "received" in line]
        return [message for message in messages if message.get("method") == method]


@pytest.fixture(scope="module")
def daemon(shared_on_either_loop: Launcher) -> Daemon:
    log = shared_on_either_loop.directory / "fake.log"
    servers = {"one": fake("--log", log), "impatient": fake(callTimeout=0.2), "patient": fake(callTimeout=2)}
    servers |= {"stammering": fake("--duplicate-answer", "--wrong-id")}
    return shared_on_either_loop.start(servers | {name: fake() for name in MORTALS}, policy="open")


@pytest.fixture
def log(daemon: Daemon) -> FakeLog:
    path = daemon.socket.with_name("fake.log")
    until(lambda: daemon.client.server("one")["pending"] == 0)
    # Once it answers this, it has also got and logged what earlier tests have cancelled.
    daemon.client.text("one_counter")
    return FakeLog(path, begin=path.stat().st_size)


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


def ask_to_sleep(client: Client, log: FakeLog) -> int:
    """A call that will not be answered, and that has reached the server."""
    before = len(log.received("tools/call"))
    number = client.ask("tools/call", name="one_sleep", arguments={"seconds": FOR_EVER})
    until(lambda: len(log.received("tools/call")) > before)
    return number


def test_a_notification_cancels_the_call_at_the_server(client: Client, log: FakeLog) -> None:
    number = ask_to_sleep(client, log)

    client.notify("notifications/cancelled", requestId=number)
    answer = client.receive()

    assert (answer["id"], answer["error"]["code"]) == (number, -32006)
    assert answer["error"]["data"]["outcome"] == "cancelled"
    [notice] = until(lambda: log.received("notifications/cancelled"))
    assert notice["params"]["requestId"] == log.received("tools/call")[0]["id"]


def test_a_client_that_disconnects_cancels_its_calls_and_no_others(
    client: Client, daemon: Daemon, log: FakeLog
) -> None:
    ask_to_sleep(client, log)
    with Client(daemon.socket) as leaving:
        ask_to_sleep(leaving, log)

    [notice] = until(lambda: log.received("notifications/cancelled"))

    assert notice["params"]["requestId"] == log.received("tools/call")[1]["id"]
    assert daemon.client.server("one")["pending"] == 1


def test_a_client_that_stopped_writing_and_then_leaves_cancels_its_calls(
    daemon: Daemon, log: FakeLog
) -> None:
    with Client(daemon.socket) as leaving:
        ask_to_sleep(leaving, log)
        leaving.socket.shutdown(socket.SHUT_WR)
        # Two turns later it has been noticed.
        assert [daemon.client.server("one")["pending"] for _ in range(2)] == [1, 1]

    until(lambda: log.received("notifications/cancelled"))
    assert daemon.client.server("one")["pending"] == 0


def test_a_client_cannot_cancel_the_call_of_another(client: Client, daemon: Daemon, log: FakeLog) -> None:
    number = ask_to_sleep(client, log)

    with Client(daemon.socket) as other:
        other.notify("notifications/cancelled", requestId=number)

        assert other.server("one")["pending"] == 1
    assert log.received("notifications/cancelled") == []


def test_a_server_that_crashes_leaves_the_outcome_unknown_with_its_exit_and_last_words(
    client: Client,
) -> None:
    client.text("crashing_stderr", text="about to fall over\n")

    error = client.refusal("crashing_crash", code=3)

    assert error["code"] == -32004
    assert error["message"] == (
        "cannot tell whether crashing_crash ran: server crashing exited with code 3 before it answered"
    )
    data = error["data"]
    assert (data["server"], data["outcome"]) == ("crashing", "unknown")
    assert (data["exit"]["code"], data["exit"]["signal"]) == (3, None)
    assert "about to fall over" in data["stderr"]


def test_a_server_that_is_dead_is_not_sent_anything(client: Client) -> None:
    client.refusal("killed_crash", signal="SIGKILL")
    until(lambda: client.server("killed")["state"] == "unavailable")

    error = client.refusal("killed_echo")

    assert error["code"] == -32003
    assert error["message"] == "cannot call server killed: it is unavailable (killed by signal 9 (SIGKILL))"
    data = error["data"]
    assert (data["server"], data["outcome"], data["phase"]) == ("killed", "not_sent", "unavailable")
    assert data["exit"]["signal"] == signal.SIGKILL


def test_a_tool_of_a_dead_server_is_unavailable_and_one_that_never_was_is_unknown(client: Client) -> None:
    client.refusal("gone_crash")
    until(lambda: "gone_echo" not in client.tools())

    assert client.refusal("gone_echo")["code"] == -32003
    assert client.refusal("gone_sing")["code"] == -32002


def test_a_call_without_an_answer_is_timed_out_and_the_server_lives(client: Client) -> None:
    error = client.refusal("impatient_sleep", seconds=FOR_EVER)

    assert (error["code"], error["data"]["outcome"], error["data"]["phase"]) == (-32005, "timed_out", "ready")
    assert "exit" not in error["data"]
    assert client.server("impatient")["state"] == "connected"


def test_an_answer_that_came_in_time_counts_although_the_daemon_stood_still(
    daemon: Daemon, client: Client, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    client.ask("tools/call", name="one_hold", arguments={"file": str(gate)}, timeout=1)
    until(lambda: daemon.client.server("one")["pending"])
    daemon.signal(signal.SIGSTOP)
    over = time.monotonic() + 1.2  # the deadline, and a while that shows that we are late
    gate.touch()
    until(lambda: time.monotonic() > over)

    daemon.signal(signal.SIGCONT)

    assert client.receive()["result"]["content"][0]["text"] == "held"


def test_a_client_may_ask_for_less_time_and_the_server_is_told(client: Client, log: FakeLog) -> None:
    arguments = {"seconds": FOR_EVER}

    error = client.error("tools/call", name="one_sleep", arguments=arguments, timeout=0.1)

    assert (error["code"], error["data"]["outcome"]) == (-32005, "timed_out")
    [notice] = until(lambda: log.received("notifications/cancelled"))
    assert notice["params"]["requestId"] == log.received("tools/call")[0]["id"]


def test_progress_extends_the_time(client: Client) -> None:
    arguments = {"steps": 12, "interval": 0.2}
    client.ask("tools/call", name="patient_progress", arguments=arguments, _meta={"progressToken": 1})

    messages = [client.receive() for _ in range(13)]

    assert messages[-1]["result"]["content"][0]["text"] == "12 steps"


def test_answers_that_nobody_asked_for_reach_nobody(client: Client) -> None:
    answers = [client.text("stammering_echo", number=number) for number in range(20)]

    assert answers == [f'{{"number": {number}}}' for number in range(20)]


def test_errors_of_the_server_pass_as_they_are(client: Client) -> None:
    error = client.refusal("one_rpc_error", code=-31999)

    assert error == {"code": -31999, "message": "cannot do this, as asked", "data": {"hint": "none"}}


def test_a_tool_that_fails_is_a_result_that_says_so(client: Client) -> None:
    assert client.result("tools/call", name="one_error")["isError"] is True


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"name": "none"}, -32002),
        ({"name": "one_echo", "arguments": 7}, -32602),
        ({"arguments": {}}, -32602),
    ],
)
def test_what_cannot_be_a_call_is_rejected(client: Client, params: dict[str, Any], code: int) -> None:
    error = client.error("tools/call", **params)

    assert (error["code"], error["data"]["outcome"]) == (code, "rejected")


def test_every_outcome_is_counted_once(client: Client) -> None:
    client.text("counting_echo")
    client.result("tools/call", name="counting_error")
    sleep = {"name": "counting_sleep", "arguments": {"seconds": FOR_EVER}}
    client.error("tools/call", **sleep, timeout=0.05)
    client.notify("notifications/cancelled", requestId=client.ask("tools/call", **sleep))
    client.receive()
    client.refusal("counting_crash")

    counted = client.server("counting")["calls"]

    assert counted == {"ok": 1, "tool_error": 1, "timed_out": 1, "cancelled": 1, "unknown": 1}


def test_calls_under_way_with_a_server_that_dies_each_end_once(client: Client, daemon: Daemon) -> None:
    others = [daemon.connect() for _ in range(4)]
    for other in others:
        for _ in range(50):
            other.ask("tools/call", name="crowded_sleep", arguments={"seconds": FOR_EVER})

    client.refusal("crowded_crash")
    answers = [other.receive() for other in others for _ in range(50)]

    assert {answer["error"]["code"] for answer in answers} <= {-32004, -32003}
    assert [other.reply("supervisor/ping")["result"] for other in others] == [{}] * 4
