"""A client that asks for very much, or reads nothing, takes its turns and its share, and no more."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Client, Daemon, Launcher, answers, fake, until

MOST_REQUESTS = 1000
TENTH = MOST_REQUESTS // 10
MOST_WAITING = 64
DROPPED = "dropping a client that does not read its answers"


@pytest.fixture(scope="module")
def daemon(shared: Launcher) -> Daemon:
    return shared.start({"one": fake(), "many": fake("--tools", 500)})


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


def question(number: int, method: str, /, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def batch_of(questions: list[bytes]) -> bytes:
    return b"[" + b",".join(questions) + b"]\n"


def peak_memory(daemon: Daemon) -> int:
    """MiB that the daemon has ever held at once."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


@contextmanager
def held(daemon: Daemon) -> Iterator[None]:
    """Whatever is sent inside, the daemon finds all of it when it goes on."""
    daemon.signal(signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        daemon.signal(signal.SIGCONT)


@pytest.mark.parametrize("form", ["lines", "batch"])
def test_others_are_served_in_between(client: Client, daemon: Daemon, form: str) -> None:
    questions = [question(number, "servers/why", server="many") for number in range(MOST_REQUESTS)]
    for clock in (0, TENTH):
        questions[clock] = question(clock, "supervisor/info")

    def read() -> Any:
        return client.receive() if form == "batch" else [client.receive() for _ in questions]

    assert client.result("supervisor/ping") == {}  # so its connection has been taken
    with ThreadPoolExecutor() as pool:
        with held(daemon):
            client.write(batch_of(questions) if form == "batch" else b"\n".join(questions) + b"\n")
            reading = pool.submit(read)
            daemon.client.ask("supervisor/info")
        between = daemon.client.receive()

    first, later = (reading.result()[clock]["result"]["uptime"] for clock in (0, TENTH))
    assert first < between["result"]["uptime"] < later


def test_a_batch_as_long_as_allowed_is_answered_in_order(client: Client) -> None:
    client.write(batch_of([question(number, "supervisor/ping") for number in range(MOST_REQUESTS)]))

    assert [answer["id"] for answer in client.receive()] == list(range(MOST_REQUESTS))


def test_a_longer_batch_is_refused_and_the_connection_stays(client: Client) -> None:
    client.write(batch_of([question(number, "supervisor/ping") for number in range(MOST_REQUESTS + 1)]))
    refusal = client.receive()

    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert refusal["error"]["message"] == f"cannot accept a batch of more than {MOST_REQUESTS} requests"
    assert client.result("supervisor/ping") == {}


def test_the_length_of_a_batch_is_a_setting(launcher: Launcher) -> None:
    client = launcher.start({}, limits={"batchRequests": 2}).client

    client.write(batch_of([question(1, "supervisor/ping")] * 2))
    assert len(client.receive()) == 2
    client.write(batch_of([question(1, "supervisor/ping")] * 3))
    assert client.receive()["error"]["code"] == -32600


def test_what_stands_behind_a_long_batch_waits_for_its_turn(either_loop: Launcher) -> None:
    client = either_loop.start({"one": fake()}).client
    batch = [question(number, "servers/why", server="one") for number in range(200)]

    client.write(batch_of(batch) + question(200, "supervisor/ping") + b"\n")
    client.socket.shutdown(socket.SHUT_WR)

    assert [len(client.receive()), client.receive()["id"], client.line()] == [200, 200, b""]


# Those who do not read.


def test_a_client_that_reads_nothing_is_not_served_for_ever(launcher: Launcher) -> None:
    daemon = launcher.start({"many": fake("--tools", 500)}, limits={"unreadSeconds": 2})
    before = peak_memory(daemon)

    daemon.connect().write((question(1, "tools/list") + b"\n") * 3000)
    until(lambda: daemon.client.result("supervisor/ping") == {} and DROPPED in daemon.said("warning"))

    assert peak_memory(daemon) - before < 100


def test_a_client_that_reads_late_gets_everything(client: Client) -> None:
    client.write(b"\n".join(question(number, "tools/list") for number in range(500)) + b"\n")

    assert [client.receive()["id"] for _ in range(500)] == list(range(500))


def test_progress_is_lost_on_a_client_that_does_not_read(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake()}, limits={"unreadBytes": 4096, "unreadSeconds": 60})
    deaf = daemon.connect()
    steps = 2000

    deaf.ask("tools/call", name="one_progress", arguments={"steps": steps}, _meta={"progressToken": 1})
    until(lambda: daemon.client.server("one")["calls"].get("ok"))
    messages = []
    while "result" not in (message := deaf.receive()):
        messages.append(message)

    assert 0 < len(messages) < steps
    assert message["result"]["content"][0]["text"] == f"{steps} steps"


@pytest.mark.parametrize("form", ["lines", "batch"])
def test_calls_under_way_cannot_add_without_end_to_what_is_unread(launcher: Launcher, form: str) -> None:
    daemon = launcher.start({"one": fake()}, limits={"unreadBytes": 65536, "unreadSeconds": 3600})
    big = {"name": "one_big", "arguments": {"bytes": 300_000}}
    questions = [question(number, "tools/call", **big) for number in range(20)]

    daemon.connect().write(batch_of(questions) if form == "batch" else b"\n".join(questions) + b"\n")

    until(lambda: daemon.client.result("supervisor/ping") == {} and DROPPED in daemon.said("warning"))
    assert daemon.client.text("one_echo") == "{}"


def test_a_batch_whose_answers_are_too_long_is_answered_in_part(launcher: Launcher) -> None:
    client = launcher.start({"many": fake("--tools", 100)}, limits={"unreadBytes": 65536}).client

    call = question(49, "tools/call", name="many_echo")
    client.write(batch_of([*(question(number, "tools/list") for number in range(49)), call]))
    replies = client.receive()

    served = sum("result" in reply for reply in replies)
    assert [reply["id"] for reply in replies] == list(range(50))
    assert 1 < served < 10
    assert {reply["error"]["code"] for reply in replies[served:]} == {-32007}
    assert replies[-1]["error"]["data"]["outcome"] == "not_sent"


# Those who wait.


def test_requests_that_wait_are_bounded_like_calls(launcher: Launcher) -> None:
    launcher.configure({"slow": fake("--slow-start", 1000, startTimeout=1000)})
    daemon = launcher.spawn()
    until(lambda: answers(daemon))
    client = daemon.client

    questions = [question(number, "servers/start", server="slow") for number in range(MOST_WAITING + 3)]
    client.write(b"\n".join(questions) + b"\n")
    refused = [client.receive() for _ in range(3)]

    assert [answer["id"] for answer in refused] == [MOST_WAITING, MOST_WAITING + 1, MOST_WAITING + 2]
    assert {answer["error"]["code"] for answer in refused} == {-32007}
    assert client.result("supervisor/ping") == {}


def test_subscriptions_are_bounded_too(client: Client) -> None:
    replies = [client.reply("events/subscribe", kinds=["reload"]) for _ in range(MOST_WAITING + 1)]

    assert all("result" in reply for reply in replies[:-1])
    assert replies[-1]["error"]["code"] == -32007
