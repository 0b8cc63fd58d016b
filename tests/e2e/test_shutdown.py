"""The end of the daemon: whatever its children do, it exits with 0 and leaves nothing."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from supervisor.selftest.innocent import share_of
from tests.e2e.support import Daemon, Launcher, answers, fake, until

FOR_EVER = 1000
"""A grace that no test would outlast: who ends sooner did not wait for it."""
STUBBORN = ("--tools", 1, "--ignore-sigterm", "--ignore-eof")
ESCAPED = ("--grandchild", "double-fork", "--grandchild-ignores-term")
GRACE, IN_TIME = 5.0, 6.5
"""Seconds that children have, and in which fifty stubborn ones must be gone: the promise of issue 2."""


def test_fifty_children_that_ignore_sigterm_and_their_escaped_children_are_gone_in_time(
    launcher: Launcher,
) -> None:
    servers = {f"server{number}": fake(*STUBBORN) for number in range(45)}
    servers |= {f"parent{number}": fake(*STUBBORN, *ESCAPED) for number in range(5)}
    daemon = launcher.start(servers)
    assert len(daemon.client.tools()) == 50
    assert len(daemon.pids()) == 55

    account = [Path(f"/proc/{daemon.process.pid}/schedstat")]
    before, asked_at = share_of(account), time.monotonic()
    daemon.signal(signal.SIGTERM)
    os.waitid(os.P_PID, daemon.process.pid, os.WEXITED | os.WNOWAIT)
    took, slowdown = time.monotonic() - asked_at, (share_of(account) - before).slowdown

    assert daemon.wait() == 0
    # What it does takes as much longer as it stands in the queue for a processor, on a busy machine.
    assert took < GRACE + (IN_TIME - GRACE) * slowdown
    assert daemon.pids() == set()


@pytest.fixture
def stubborn(either_loop: Launcher) -> Daemon:
    options = (*STUBBORN, *ESCAPED)
    return either_loop.start({f"server{number}": fake(*options, stopGrace=FOR_EVER) for number in range(3)})


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(stubborn: Daemon, second: signal.Signals) -> None:
    stubborn.signal(signal.SIGTERM)
    until(lambda: "stopping 3 servers" in stubborn.said())

    stubborn.signal(second)

    assert stubborn.wait() == 0
    assert stubborn.pids() == set()


def test_signals_until_its_very_end_do_not_change_how_it_ends(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake()})

    while daemon.process.poll() is None:
        daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert daemon.pids() == set()


@pytest.mark.parametrize("half_closed", [False, True])
def test_answers_that_were_given_are_read_to_their_end(launcher: Launcher, half_closed: bool) -> None:
    daemon = launcher.start({"one": fake()})
    client = daemon.connect()
    client.ask("tools/call", name="one_big", arguments={"bytes": 4_000_000})
    if half_closed:
        client.socket.shutdown(socket.SHUT_WR)
    until(lambda: daemon.client.server("one")["calls"].get("ok"))

    daemon.signal(signal.SIGTERM)
    until(lambda: "stopping 1 servers" in daemon.said())
    answer = client.receive()

    assert len(answer["result"]["content"][0]["text"]) == 4_000_000
    assert daemon.wait() == 0


@pytest.mark.parametrize("wish", ["start", "restart", "enable"])
def test_a_client_cannot_hold_it_up(launcher: Launcher, wish: str) -> None:
    daemon = launcher.start({"one": fake(*STUBBORN, stopGrace=FOR_EVER)})
    client = daemon.connect()
    pid = client.server("one")["pid"]
    daemon.signal(signal.SIGTERM)
    until(lambda: "stopping 1 servers" in daemon.said())

    error = client.error(f"servers/{wish}", server="one", wait=False)
    os.kill(pid, signal.SIGKILL)

    # Had the wish been heard, the server would come back now, and the daemon wait for ever for its end.
    assert error["message"] == "cannot start server one: the daemon is stopping"
    assert daemon.wait() == 0
    assert daemon.pids() == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_either_signal_stops_it(launcher: Launcher, number: signal.Signals) -> None:
    daemon = launcher.start({"one": fake()})

    daemon.signal(number)

    assert daemon.wait() == 0


def test_a_hangup_does_not(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake()})

    daemon.signal(signal.SIGHUP)
    until(lambda: "reloaded: nothing changed" in daemon.said())

    assert daemon.client.text("one_counter") == "1"


def test_a_client_can_ask_for_it_and_is_answered(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake()})

    answer = daemon.client.reply("supervisor/shutdown")

    assert answer["result"] == {}
    assert daemon.client.line() == b""
    assert daemon.wait() == 0


def test_a_server_that_is_still_starting_is_no_obstacle(launcher: Launcher) -> None:
    launcher.configure({"mute": fake("--silent", startTimeout=FOR_EVER)})
    daemon = launcher.spawn()
    until(lambda: answers(daemon))
    until(lambda: daemon.client.server("mute")["pid"])

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert daemon.pids() == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_daemon_is_still_being_loaded_ends_what_was_begun(
    launcher: Launcher, number: signal.Signals
) -> None:
    launcher.configure({f"s{each}": fake() for each in range(5)})
    daemon = launcher.spawn()
    begun = until(daemon.tokened)

    daemon.signal(number)

    assert daemon.wait() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in begun)
    assert daemon.tokened() == set()
    assert daemon.said("info")[-1] == "stopped, nothing left"


def test_no_server_is_deaf_to_signals_that_had_to_wait_for_the_daemon(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})

    status = Path(f"/proc/{daemon.client.server('s')['pid']}/status").read_text(encoding="utf-8")

    assert "SigBlk:\t0000000000000000\n" in status


def test_a_server_in_backoff_is_not_started_again(launcher: Launcher) -> None:
    restart = {"policy": "always", "delay": FOR_EVER, "maxDelay": FOR_EVER}
    daemon = launcher.start({"one": fake("--exit-at", "initialize", "--era", "legacy", restart=restart)})

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert daemon.pids() == set()


def test_a_call_under_way_is_told_what_became_of_it(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake("--ignore-sigterm", "--ignore-eof", stopGrace=0.2)})
    daemon.client.ask("tools/call", name="one_sleep", arguments={"seconds": FOR_EVER})
    other = daemon.connect()
    until(lambda: other.server("one")["pending"] == 1)

    daemon.signal(signal.SIGTERM)
    error = daemon.client.receive()["error"]

    assert error["data"]["outcome"] == "unknown"
    assert daemon.client.line() == b""
    assert daemon.wait() == 0


def test_a_client_that_stays_connected_is_no_obstacle(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake()})
    idle = [daemon.connect() for _ in range(5)]

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert [client.line() for client in idle] == [b""] * 5


def test_a_member_of_the_group_that_outlives_its_leader_is_killed_after_the_grace(
    launcher: Launcher,
) -> None:
    options = ("--grandchild", "group", "--grandchild-ignores-term", "--leader-exits-on-term")
    daemon = launcher.start({"one": fake(*options, stopGrace=0.3)})
    assert len(daemon.pids()) == 2

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert daemon.pids() == set()


@pytest.mark.parametrize("moment", ["listening", "starting", "ready"])
def test_a_signal_at_any_moment_of_the_start_leaves_nothing(launcher: Launcher, moment: str) -> None:
    launcher.configure({f"server{number}": fake(*ESCAPED) for number in range(4)})
    daemon = launcher.spawn()
    until(launcher.socket.exists)
    until(lambda: moment == "listening" or any(f": {moment}" in line for line in daemon.said()))

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert daemon.pids() == set()
