"""A child that is killed with -9: what the others see, and how soon."""

import os
import signal
import statistics
import time

import pytest

from tests.e2e.support import Client, Daemon, Launcher, fake, until

SOON = 0.25
"""Seconds within which the tools of a killed server must be gone: the promise of issue 2."""


def kill(client: Client, server: str) -> None:
    os.kill(client.server(server)["pid"], signal.SIGKILL)


def unavailable(client: Client, server: str) -> bool:
    state: str = client.server(server)["state"]
    return state == "unavailable"


PAIR = {"doomed": fake("--tools", 1), "other": fake("--tools", 1)}
DOOMED = [f"doomed{number}" for number in range(5)]
"""Several, for a kill or two may fall into a moment in which the machine does something else."""


def seconds_until_gone(client: Client, server: str) -> float:
    """How long a server that is killed still has its tool."""
    kill(client, server)
    killed_at = time.monotonic()
    until(lambda: f"{server}_echo" not in client.tools())
    return time.monotonic() - killed_at


@pytest.fixture
def pair(launcher: Launcher) -> Daemon:
    return launcher.start(PAIR)


def test_its_tools_are_gone_within_250_milliseconds_and_the_other_answers_as_before(
    either_loop: Launcher,
) -> None:
    client = either_loop.start({name: fake("--tools", 1) for name in (*DOOMED, "other")}).client
    assert client.tools() == [*(f"{name}_echo" for name in DOOMED), "other_echo"]

    took = [seconds_until_gone(client, name) for name in DOOMED]

    assert statistics.median(took) < SOON
    assert client.tools() == ["other_echo"]
    assert client.text("other_echo", still="here") == '{"still": "here"}'


def test_status_says_signal_9_and_that_it_is_not_restarted(pair: Daemon) -> None:
    kill(pair.client, "doomed")
    until(lambda: unavailable(pair.client, "doomed"))

    doomed = pair.client.server("doomed")
    assert (doomed["exit"]["signal"], doomed["exit"]["code"]) == (9, None)
    assert doomed["reason"] == "killed by signal 9 (SIGKILL)"
    assert (doomed["phase"], doomed["nextTry"]) == ("unavailable", None)
    assert (doomed["run"], doomed["restarts"], doomed["pid"]) == (1, 0, None)


def test_the_daemon_logs_one_error_and_no_more(pair: Daemon) -> None:
    kill(pair.client, "doomed")
    until(lambda: unavailable(pair.client, "doomed"))
    pair.signal(signal.SIGTERM)
    assert pair.wait() == 0

    [error] = pair.logged("error")
    assert error["message"] == "doomed: unavailable: killed by signal 9 (SIGKILL)"
    assert (error["server"], error["phase"], error["run"]) == ("doomed", "unavailable", 1)
    assert pair.logged("warning") == []


def test_a_call_under_way_ends_at_once_with_a_true_account(launcher: Launcher) -> None:
    client = launcher.start({"doomed": fake()}).client
    pid = client.server("doomed")["pid"]
    client.ask("tools/call", name="doomed_sleep", arguments={"seconds": 1000})

    with launcher.started[0].connect() as watcher:
        until(lambda: watcher.server("doomed")["pending"] == 1)
    os.kill(pid, signal.SIGKILL)
    error = client.receive()["error"]

    assert error["code"] == -32004
    assert error["message"] == (
        "cannot tell whether doomed_sleep ran: server doomed killed by signal 9 (SIGKILL) before it answered"
    )
    assert (error["data"]["outcome"], error["data"]["exit"]["signal"]) == ("unknown", 9)


def test_calls_sent_into_the_moment_of_its_death_each_end_once(either_loop: Launcher) -> None:
    # The grandchild holds the pipe open, so the moment between death and its discovery is long.
    daemon = either_loop.start({"doomed": fake("--grandchild", "group", stopGrace=0.1)})
    client, watcher = daemon.connect(), daemon.connect()

    kill(watcher, "doomed")
    asked: list[int] = []
    while len(asked) < 60:
        asked.append(client.ask("tools/call", name="doomed_echo"))
        watcher.result("supervisor/ping")
    until(lambda: watcher.server("doomed")["phase"] == "unavailable")
    last = client.ask("supervisor/ping")
    answers = list(iter(client.receive, {"jsonrpc": "2.0", "id": last, "result": {}}))

    assert sorted(answer["id"] for answer in answers) == asked
    assert {answer["error"]["code"] for answer in answers} <= {-32003, -32004}
    daemon.end()
    assert len(daemon.logged("error")) == 1


def test_its_escaped_grandchild_goes_with_it(launcher: Launcher) -> None:
    grandchild = ("--grandchild", "double-fork", "--grandchild-ignores-term")
    daemon = launcher.start({"doomed": fake(*grandchild)})
    assert len(daemon.pids()) == 2

    kill(daemon.client, "doomed")

    until(lambda: not daemon.pids())


def test_with_restart_on_failure_it_comes_back_in_a_new_process(either_loop: Launcher) -> None:
    restart = {"policy": "on-failure", "delay": 0.05}
    client = either_loop.start({"phoenix": fake("--tools", 1, restart=restart)}).client
    before = client.server("phoenix")["pid"]

    os.kill(before, signal.SIGKILL)
    phoenix = until(lambda: (found := client.server("phoenix"))["run"] == 2 and found["pid"] and found)
    until(lambda: client.tools() == ["phoenix_echo"])

    assert phoenix["pid"] != before
    assert phoenix["restarts"] == 1
    assert phoenix["exit"]["signal"] == 9
    assert either_loop.started[0].logged("error") == []
