"""What is started again, and what is not: servers by their policy, and the daemon itself after a SIGKILL."""

import signal
from pathlib import Path

import pytest

from tests.e2e.support import Client, Daemon, Json, Launcher, alive, answers, fake, until

QUICKLY = {"delay": 0.05, "maxDelay": 0.05}


def end_of(client: Client, server: str, *, code: int) -> None:
    client.text(f"{server}_exit_later", code=code)


def until_state(client: Client, server: str, state: str) -> Json:
    until(lambda: client.server(server)["state"] == state)
    return client.server(server)


EXITS = [
    ("never", 1, "unavailable"),
    ("never", 0, "unavailable"),
    ("on-failure", 1, "connected"),
    ("on-failure", 0, "unavailable"),
    ("always", 0, "connected"),
]
"""A policy, the code of an exit, and the state that the server is in afterwards."""


@pytest.fixture(scope="module")
def exits(shared: Launcher) -> Client:
    policies = {f"{policy}-{code}": policy for policy, code, _ in EXITS}
    return shared.start(
        {name: fake(restart={"policy": policy, **QUICKLY}) for name, policy in policies.items()}
    ).client


@pytest.mark.parametrize(("policy", "code", "state"), EXITS)
def test_the_policy_says_what_an_exit_leads_to(exits: Client, policy: str, code: int, state: str) -> None:
    name = f"{policy}-{code}"

    end_of(exits, name, code=code)
    until(lambda: exits.server(name)["ends"])
    found = until_state(exits, name, state)

    assert (found["exit"]["code"], found["exit"]["reason"]) == (code, f"exited with code {code}")
    assert found["run"] == (2 if state == "connected" else 1)


def test_a_server_that_fails_again_and_again_is_given_up_as_a_crash_loop(launcher: Launcher) -> None:
    restart = {"policy": "on-failure", "maxFailures": 3, **QUICKLY}
    daemon = launcher.start({"loop": fake("--exit-at", "list", "--exit-code", 4, restart=restart)})

    loop = until(lambda: (found := daemon.client.server("loop"))["phase"] == "unavailable" and found)

    assert loop["reason"].startswith("exited with code 4; crash loop")
    assert len(loop["ends"]) == 3
    daemon.end()
    assert len(daemon.logged("error")) == 1


@pytest.mark.parametrize("before_it_dies", ["true", "read question"])
def test_a_crash_loop_costs_as_many_processes_as_there_are_failures_allowed(
    launcher: Launcher, tmp_path: Path, before_it_dies: str
) -> None:
    (tmp_path / "seen").mkdir()
    script = f"echo >> {tmp_path}/seen/starts; {before_it_dies}; exit 1"
    entry = {"command": "sh", "args": ["-c", script], "restart": {"policy": "always", **QUICKLY}}
    client = launcher.start({"loop": entry}).client

    loop = until(lambda: (found := client.server("loop"))["phase"] == "unavailable" and found)

    assert loop["reason"] == "exited with code 1; crash loop: 5 failures in 300 s"
    assert (tmp_path / "seen" / "starts").read_text().count("\n") == 5


def test_a_call_wakes_a_server_from_its_backoff(launcher: Launcher) -> None:
    restart = {"policy": "on-failure", "delay": 1000, "maxDelay": 1000}
    client = launcher.start({"one": fake(restart=restart)}).client
    end_of(client, "one", code=1)
    until(lambda: client.server("one")["phase"] == "backoff")
    assert client.server("one")["nextTry"] > client.server("one")["since"]

    answer = client.text("one_counter")

    assert answer == "1"
    assert client.server("one")["run"] == 2


def test_when_it_is_tried_again_is_told_once_and_kept_as_a_moment(launcher: Launcher) -> None:
    restart = {"policy": "on-failure", "delay": 1000, "maxDelay": 1000, "maxFailures": 3}
    daemon = launcher.start({"one": fake(restart=restart)})
    end_of(daemon.client, "one", code=1)
    found = until(lambda: (one := daemon.client.server("one"))["phase"] == "backoff" and one)

    reason = "exited with code 1; to be tried again, failure 1 of at most 3"
    assert found["reason"] == reason
    daemon.end()
    assert any(f"one: backoff: {reason}; next try in 1" in said for said in daemon.said("warning"))


def test_a_server_that_an_operator_stopped_did_not_fail(launcher: Launcher) -> None:
    client = launcher.start({"one": fake("--ignore-eof")}).client

    client.result("servers/stop", server="one")

    found = client.server("one")
    told = "stopped by an operator; killed by signal 15 (SIGTERM)"
    assert (found["state"], found["reason"], found["exit"]["reason"]) == ("stopped", told, told)
    assert found["exit"]["signal"] == signal.SIGTERM


def parent(launcher: Launcher, directory: Path, *options: str) -> tuple[Daemon, int, int]:
    """A daemon, its stubborn child, and a grandchild that has escaped."""
    pidfile = directory / "grandchild.pid"
    grandchild = ("--grandchild", "double-fork", "--grandchild-pidfile", pidfile, *options)
    daemon = launcher.start({"one": fake("--ignore-eof", "--ignore-sigterm", *grandchild)})
    return daemon, daemon.client.server("one")["pid"], int(pidfile.read_text(encoding="ascii"))


def test_a_killed_daemon_takes_its_children_with_it_and_the_next_one_sweeps_the_rest(
    either_loop: Launcher, tmp_path: Path
) -> None:
    first, child, grandchild = parent(either_loop, tmp_path, "--grandchild-ignores-term")

    first.signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    until(lambda: not alive(child))
    assert alive(grandchild)
    second = either_loop.start({})

    until(lambda: not alive(grandchild))
    assert "ending 1 processes that a dead daemon left behind" in second.said("warning")
    assert first.pids() == second.pids() == set()


def test_a_daemon_on_another_socket_leaves_them_alone(launcher: Launcher, tmp_path: Path) -> None:
    first, _, grandchild = parent(launcher, tmp_path)
    first.signal(signal.SIGKILL)
    first.wait()

    launcher.socket = tmp_path / "other.sock"
    other = launcher.start({"one": fake()})

    assert alive(grandchild)
    first.destroy()
    assert other.client.text("one_counter") == "1"


def test_what_the_next_daemon_starts_is_not_swept(launcher: Launcher, tmp_path: Path) -> None:
    first, child, grandchild = parent(launcher, tmp_path)
    first.signal(signal.SIGKILL)
    first.wait()

    second = launcher.start({"one": fake(), "two": fake()})

    assert second.client.text("one_counter") == second.client.text("two_counter") == "1"
    assert not alive(child)
    assert not alive(grandchild)


def test_the_era_of_a_server_that_dies_on_the_probe_is_remembered_across_daemons(
    launcher: Launcher, tmp_path: Path
) -> None:
    servers = {"old": fake("--era", "rmcp", "--log", tmp_path / "fake.log")}

    for _ in range(2):
        daemon = launcher.start(servers)
        assert daemon.client.server("old")["state"] == "connected"
        daemon.end()

    starts = (tmp_path / "fake.log").read_text(encoding="utf-8").count('"started"')
    assert starts == 3


def test_until_the_leftovers_are_gone_the_tool_list_says_that_it_is_incomplete(
    launcher: Launcher, tmp_path: Path
) -> None:
    first, _, _ = parent(launcher, tmp_path, "--grandchild-ignores-term")
    first.signal(signal.SIGKILL)
    first.wait()
    launcher.configure({"one": fake("--tools", 1)})

    second = launcher.spawn()
    until(lambda: answers(second))

    early = second.client.result("tools/list")
    assert (early["tools"], early["complete"], early["pending"]) == ([], False, ["one"])
    until(lambda: second.client.tools() == ["one_echo"])
    assert second.client.result("tools/list")["complete"]
