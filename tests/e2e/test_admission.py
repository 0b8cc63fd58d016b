"""Who is served when, and what becomes of calls that wait."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path

from tests.e2e.support import Client, Daemon, Launcher, answers, fake, until
from tests.files import whole_lines


def received(log: Path, method: str) -> list[dict[str, object]]:
    """What the fake server has logged of messages with that method."""
    lines = [json.loads(line) for line in whole_lines(log)]
    messages = [line["received"] for line in lines if "received" in line]
    return [message for message in messages if message.get("method") == method]


def waiting(daemon: Daemon) -> int:
    """How many calls the only server of a daemon has, sent or not."""
    number: int = daemon.client.server("one")["pending"]
    return number


def flood(client: Client, tool: str, count: int, **arguments: object) -> None:
    """Send many calls at once, without waiting for an answer."""
    for number in range(count):
        params = {"name": tool, "arguments": {**arguments, "number": number}}
        client.send({"jsonrpc": "2.0", "id": f"flood-{number}", "method": "tools/call", "params": params})


def test_a_flood_delays_another_client_by_one_call_and_not_by_its_queue(
    launcher: Launcher, tmp_path: Path
) -> None:
    log, gate = tmp_path / "server.log", tmp_path / "gate"
    daemon = launcher.start({"one": fake("--log", log, maxConcurrency=1)}, limits={"callsPerClient": 64})
    greedy, modest = daemon.connect(), daemon.connect()
    flood(greedy, "one_hold", 60, file=str(gate))
    until(lambda: waiting(daemon) == 60)
    asked = modest.ask("tools/call", name="one_echo", arguments={"mine": True})
    until(lambda: waiting(daemon) == 61)

    gate.touch()
    assert modest.receive()["id"] == asked

    order = [json.dumps(message["params"]) for message in received(log, "tools/call")]
    mine = next(index for index, params in enumerate(order) if "mine" in params)
    assert mine <= 2


def test_calls_past_the_queue_are_busy_and_say_so(launcher: Launcher, tmp_path: Path) -> None:
    daemon = launcher.start({"one": fake(maxConcurrency=1, maxQueue=3)})
    client = daemon.connect()

    flood(client, "one_hold", 8, file=str(tmp_path / "gate"))
    refused = [client.receive()["error"] for _ in range(4)]

    assert Counter(error["code"] for error in refused) == {-32007: 4}
    assert {error["data"]["outcome"] for error in refused} == {"not_sent"}
    (tmp_path / "gate").touch()
    assert all("result" in client.receive() for _ in range(4))


def test_calls_past_the_limit_of_a_client_are_busy(launcher: Launcher, tmp_path: Path) -> None:
    daemon = launcher.start({"s": fake()}, limits={"callsPerClient": 2})
    client = daemon.connect()

    flood(client, "s_hold", 3, file=str(tmp_path / "gate"))

    assert client.receive()["error"]["code"] == -32007
    (tmp_path / "gate").touch()
    assert all("result" in client.receive() for _ in range(2))


def test_calls_behind_a_killed_server_are_not_sent_and_none_runs_twice(
    launcher: Launcher, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    daemon = launcher.start({"one": fake("--log", log, maxConcurrency=1)})
    client = daemon.connect()
    flood(client, "one_sleep", 5, seconds=30)
    until(lambda: received(log, "tools/call"))

    os.kill(daemon.client.server("one")["pid"], signal.SIGKILL)
    errors = [client.receive()["error"] for _ in range(5)]

    assert Counter(error["data"]["outcome"] for error in errors) == {"unknown": 1, "not_sent": 4}
    died = next(error for error in errors if error["data"]["outcome"] == "unknown")
    assert died["code"] == -32004
    assert died["data"]["exit"]["signal"] == 9
    assert len(received(log, "tools/call")) == 1


def test_calls_behind_a_killed_server_wait_for_its_restart(launcher: Launcher, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    restart = {"policy": "on-failure", "delay": 0.05}
    daemon = launcher.start({"one": fake("--log", log, maxConcurrency=1, restart=restart)})
    client = daemon.connect()
    flood(client, "one_sleep", 1, seconds=30)
    flood(client, "one_echo", 3)
    until(lambda: received(log, "tools/call"))

    os.kill(daemon.client.server("one")["pid"], signal.SIGKILL)
    answers = [client.receive() for _ in range(4)]

    assert answers[0]["error"]["data"]["outcome"] == "unknown"
    assert all("result" in answer for answer in answers[1:])
    assert len(received(log, "tools/call")) == 4


def test_a_call_to_a_server_in_backoff_wakes_it(launcher: Launcher) -> None:
    restart = {"policy": "on-failure", "delay": 30}
    daemon = launcher.start({"one": fake(restart=restart)})
    os.kill(daemon.client.server("one")["pid"], signal.SIGKILL)
    until(lambda: daemon.client.server("one")["phase"] == "backoff")

    assert daemon.client.text("one_echo", hello=1)
    assert daemon.client.server("one")["restarts"] == 1


def starting(launcher: Launcher, gate: Path) -> Daemon:
    """A daemon whose server comes up when the gate is there."""
    launcher.configure({"slow": fake("--hold-start", gate)})
    daemon = launcher.spawn()
    until(lambda: answers(daemon))
    until(lambda: daemon.client.server("slow")["phase"] == "starting")
    return daemon


def test_a_call_waits_for_a_server_that_is_still_starting(launcher: Launcher, tmp_path: Path) -> None:
    daemon = starting(launcher, tmp_path / "gate")
    client = daemon.connect()

    client.ask("tools/call", name="slow_echo", arguments={"hello": 1})
    until(lambda: daemon.client.server("slow")["pending"])
    (tmp_path / "gate").touch()

    assert "result" in client.receive()


def test_a_call_for_a_tool_that_a_starting_server_turns_out_not_to_have_is_unknown(
    launcher: Launcher, tmp_path: Path
) -> None:
    daemon = starting(launcher, tmp_path / "gate")
    client = daemon.connect()

    client.ask("tools/call", name="slow_nonsense", arguments={})
    until(lambda: daemon.client.server("slow")["pending"])
    (tmp_path / "gate").touch()

    assert client.receive()["error"]["code"] == -32002


def test_a_parked_call_ends_at_its_deadline_as_not_sent(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake(maxConcurrency=1, callTimeout=30)})
    client = daemon.connect()
    flood(client, "one_sleep", 1, seconds=1000)
    until(lambda: daemon.client.server("one")["pending"] == 1)

    error = daemon.client.error("tools/call", name="one_echo", timeout=0.1)

    assert (error["code"], error["data"]["outcome"]) == (-32005, "not_sent")


def test_a_lazy_server_starts_at_its_first_call_and_sleeps_again(launcher: Launcher) -> None:
    daemon = launcher.start({"lazy": fake(start="lazy", idleTimeout=0.3)})
    until(lambda: daemon.client.server("lazy")["state"] == "idle")
    assert "lazy_echo" in daemon.client.tools()

    assert daemon.client.text("lazy_echo", hello=1)

    until(lambda: daemon.client.server("lazy")["state"] == "idle")
    assert daemon.client.server("lazy")["pid"] is None


def test_a_thousand_clients_with_the_same_id_get_their_own_answers(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()}, limits={"clients": 300})
    wrong: list[object] = []
    threads = [threading.Thread(target=ten_calls, args=(daemon, first, wrong)) for first in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert wrong == []


def ten_calls(daemon: Daemon, first: int, wrong: list[object]) -> None:
    """A share of the thousand clients, each with ten calls of its own; every id is 1."""
    for number in range(first, 1000, 8):
        with Client(daemon.socket) as client:
            for turn in range(10):
                arguments = {"client": number, "turn": turn}
                params = {"name": "s_echo", "arguments": arguments}
                client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
                answer = client.receive()
                if json.loads(answer["result"]["content"][0]["text"]) != arguments:
                    wrong.append(answer)
