"""One client cannot hurt the daemon, nor another client: everything it can pile up has a bound."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from supervisor.client import SyncClient
from supervisor.errors import Busy, TooLarge
from tests.e2e.support import PATIENCE, Client, Daemon, Launcher, fake, until

LONGEST_LINE = 4 * 1024 * 1024
MOST_CLIENTS = 256
MOST_CALLS = 64
PATIENCE_WITH_READERS = 10.0
"""Seconds after which a client that does not read is dropped."""


@pytest.fixture(scope="module")
def daemon(shared: Launcher) -> Daemon:
    return shared.start({"one": fake()})


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


def padded(size: int) -> bytes:
    """A ping of exactly so many bytes, without its newline."""
    empty = b'{"jsonrpc":"2.0","id":1,"method":"supervisor/ping","params":{"a":"%b"}}'
    return empty % (b"x" * (size - len(empty % b"")))


def test_a_line_of_the_greatest_length_is_answered(client: Client) -> None:
    client.write(padded(LONGEST_LINE) + b"\n")

    assert client.receive()["result"] == {}


@pytest.mark.parametrize("ending", [b"\n", b""], ids=["that ends", "that does not end"])
def test_a_longer_line_is_refused_and_the_connection_closed(
    client: Client, daemon: Daemon, ending: bytes
) -> None:
    client.write(padded(LONGEST_LINE + 1) + ending)

    answer = client.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32009)
    assert str(LONGEST_LINE) in answer["error"]["message"]
    assert client.line() == b""
    assert daemon.client.result("supervisor/ping") == {}


def test_a_thousand_requests_in_one_write_are_answered_in_order(client: Client) -> None:
    lines = [{"jsonrpc": "2.0", "id": number, "method": "supervisor/ping"} for number in range(1000)]

    client.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    assert [client.receive()["id"] for _ in lines] == list(range(1000))


def test_a_thousand_calls_in_one_write_each_end_once(client: Client) -> None:
    call = {"method": "tools/call", "params": {"name": "one_echo"}}
    lines = [{"jsonrpc": "2.0", "id": number, **call} for number in range(1000)]

    client.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    answers = [client.receive() for _ in lines]

    assert sorted(answer["id"] for answer in answers) == list(range(1000))
    codes = {answer["error"]["code"] for answer in answers if "error" in answer}
    assert codes <= {-32007}
    assert sum("result" in answer for answer in answers) >= MOST_CALLS


def test_calls_past_the_limit_are_refused_as_busy_and_can_be_sent_again_later(
    client: Client, daemon: Daemon
) -> None:
    for _ in range(MOST_CALLS):
        client.ask("tools/call", name="one_sleep", arguments={"seconds": 1000})

    error = client.refusal("one_echo")
    client.notify("notifications/cancelled", requestId=1)
    assert client.receive()["error"]["code"] == -32006

    assert (error["code"], error["data"]["outcome"]) == (-32007, "not_sent")
    assert daemon.client.text("one_echo") == "{}"
    assert client.text("one_echo") == "{}"


def test_clients_up_to_the_limit_are_served_and_one_more_is_told(launcher: Launcher) -> None:
    daemon = launcher.start({})
    clients = [daemon.client, *(daemon.connect() for _ in range(MOST_CLIENTS - 1))]
    assert all(client.result("supervisor/ping") == {} for client in clients)

    extra = daemon.connect()
    refusal = extra.receive()

    assert (refusal["id"], refusal["error"]["code"]) == (None, -32007)
    assert extra.line() == b""
    assert clients[0].result("supervisor/ping") == {}


def test_a_place_that_was_left_can_be_taken_again(launcher: Launcher) -> None:
    daemon = launcher.start({})
    clients = [daemon.client, *(daemon.connect() for _ in range(MOST_CLIENTS - 1))]
    assert clients[-1].result("supervisor/ping") == {}

    clients[-1].close()

    def served() -> bool:
        with Client(daemon.socket) as client, suppress(OSError):  # it may have been hung up on already
            client.ask("supervisor/ping")
            return "result" in client.receive()
        return False

    assert until(served)


def test_the_place_of_a_client_that_stopped_writing_and_left_can_be_taken_again(
    either_loop: Launcher,
) -> None:
    daemon = either_loop.start({"one": fake()}, limits={"clients": 2})

    def followed() -> bool:
        with Client(daemon.socket) as client, suppress(OSError):  # it may have been hung up on already
            client.ask("servers/logs", server="one", follow=True)
            client.socket.shutdown(socket.SHUT_WR)
            return "result" in client.receive()
        return False

    assert [until(followed) for _ in range(5)] == [True] * 5


@pytest.mark.parametrize("size", [5_000_000, 60_000_000])
def test_who_sends_too_much_hears_why(either_loop: Launcher, size: int) -> None:
    daemon = either_loop.start({})

    for _ in range(3):
        with SyncClient(str(daemon.socket)) as client, pytest.raises(TooLarge, match="longer than"):
            client.request("supervisor/ping", {"padding": "x" * size})


def test_who_does_not_stop_writing_is_hung_up_on(client: Client, daemon: Daemon) -> None:
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        client.write(b"x" * 500_000_000)

    assert client.receive()["error"]["code"] == -32009
    assert daemon.client.result("supervisor/ping") == {}


def test_who_comes_when_there_is_no_place_hears_why(either_loop: Launcher) -> None:
    daemon = either_loop.start({}, limits={"clients": 1})
    assert daemon.client.result("supervisor/ping") == {}

    told = either_loop.command("status")
    with SyncClient(str(daemon.socket)) as client, pytest.raises(Busy, match="cannot serve more clients"):
        client.request("supervisor/ping")

    assert (told.returncode, "cannot serve more clients" in told.stderr) == (Busy.exit_status, True)


def test_more_than_a_few_that_are_refused_at_once_are_just_hung_up_on(launcher: Launcher) -> None:
    daemon = launcher.start({}, limits={"clients": 1})

    refused = [daemon.connect() for _ in range(100)]

    assert [client.receive()["error"]["code"] for client in refused] == [-32007] * 100
    assert [client.line() for client in refused] == [b""] * 100
    assert daemon.client.result("supervisor/ping") == {}


def test_a_client_that_never_reads_is_dropped_and_nobody_else_notices(launcher: Launcher) -> None:
    daemon = launcher.start({"big": fake(), "small": fake()})
    deaf = daemon.connect()
    for _ in range(6):
        deaf.ask("tools/call", name="big_big", arguments={"bytes": 4_000_000})

    def dropped() -> bool:
        assert daemon.client.text("small_echo") == "{}"
        return "dropping a client that does not read its answers" in daemon.said("warning")

    until(dropped, seconds=PATIENCE_WITH_READERS + PATIENCE)
    assert len(everything(deaf)) < 6 * 4_000_000
    assert daemon.client.text("big_echo") == "{}"


def test_what_is_kept_for_a_client_that_never_reads_has_a_bound(launcher: Launcher) -> None:
    daemon = launcher.start(
        {"big": fake()}, limits={"unreadBytes": 100_000, "unreadSeconds": 3600, "callsPerClient": 100}
    )
    deaf = daemon.connect()
    for _ in range(50):
        deaf.ask("tools/call", name="big_big", arguments={"bytes": 100_000})

    until(lambda: "dropping a client that does not read its answers" in daemon.said("warning"))

    # It is kept until there are eight times the limit, and one answer more; the kernel's buffer comes on top.
    assert len(everything(deaf)) < 2_000_000
    assert daemon.client.text("big_echo") == "{}"


def everything(client: Client) -> bytes:
    """What is left to read, up to the end or the loss of the connection."""
    content = bytearray()
    with suppress(ConnectionResetError):
        while chunk := client.socket.recv(1 << 20):
            content += chunk
    return bytes(content)


def test_a_slow_reader_that_keeps_reading_gets_everything(client: Client) -> None:
    for _ in range(4):
        client.ask("tools/call", name="one_big", arguments={"bytes": 4_000_000})

    texts = [client.receive()["result"]["content"][0]["text"] for _ in range(4)]

    assert [len(text) for text in texts] == [4_000_000] * 4


def test_a_client_that_comes_and_goes_in_the_middle_of_a_line_costs_nothing(daemon: Daemon) -> None:
    for _ in range(300):
        with Client(daemon.socket) as client:
            client.write(b'{"jsonrpc":')

    assert daemon.client.result("supervisor/ping") == {}
    assert daemon.logged("error") == []
