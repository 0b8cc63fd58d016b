"""A hundred servers that crash at every start: tried within their budget, then left alone, at no cost."""

import os
import threading
from pathlib import Path

import pytest

from tests.e2e.support import Daemon, Json, Launcher, answers, launching, until

SERVERS = 100
BUDGET = 5
QUICKLY = {"delay": 0.1, "maxDelay": 0.5}
pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def servers(daemon: Daemon) -> list[Json]:
    found: list[Json] = daemon.client.result("servers/list")["servers"]
    return found


def load(daemon: Daemon, *, seconds: float) -> float:
    """The part of one processor that the daemon itself uses while nobody asks it anything.

    The least of a few looks counts: a busy machine makes all work dearer, and what a start leaves to be done
    is done soon after it.
    """
    before = ticks(daemon)
    threading.Event().wait(seconds)
    return (ticks(daemon) - before) / os.sysconf("SC_CLK_TCK") / seconds


def ticks(daemon: Daemon) -> int:
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def start(launcher: Launcher, restart: Json, *, servers: int = SERVERS) -> Daemon:
    entry = {"command": "/bin/false", "restart": {"policy": "always", **restart}}
    launcher.configure({f"s{number:02}": entry for number in range(servers)})
    daemon = launcher.spawn()
    until(lambda: answers(daemon))
    return daemon


def test_a_hundred_servers_that_wait_for_their_next_try_say_so_and_cost_little(tmp_path: Path) -> None:
    with launching(tmp_path) as launcher:
        daemon = start(launcher, {"delay": 60, "maxDelay": 60})
        until(lambda: {server["phase"] for server in servers(daemon)} == {"backoff"}, seconds=60)

        until(lambda: load(daemon, seconds=5) < 0.02, seconds=60)

        assert all(server["nextTry"] is not None for server in servers(daemon))
        assert all("failure 1 of at most 5" in server["reason"] for server in servers(daemon))


def test_a_hundred_servers_that_crash_again_and_again_cost_little(tmp_path: Path) -> None:
    with launching(tmp_path) as launcher:
        daemon = start(launcher, {"delay": 8, "maxDelay": 8, "maxFailures": 50})
        until(lambda: sum(server["run"] > 1 for server in servers(daemon)) > SERVERS / 10, seconds=60)

        until(lambda: load(daemon, seconds=10) < 0.02, seconds=60)


def test_servers_that_crash_at_every_start_are_given_up_and_cost_nothing(tmp_path: Path) -> None:
    with launching(tmp_path) as launcher:
        daemon = start(launcher, {**QUICKLY, "maxFailures": BUDGET}, servers=25)
        until(lambda: {server["phase"] for server in servers(daemon)} == {"unavailable"}, seconds=120)

        until(lambda: load(daemon, seconds=5) < 0.02, seconds=60)

        assert {server["run"] for server in servers(daemon)} == {BUDGET}
        reasons = {server["reason"] for server in servers(daemon)}
        assert reasons == {"exited with code 1; crash loop: 5 failures in 300 s"}
        assert daemon.pids() == set()
