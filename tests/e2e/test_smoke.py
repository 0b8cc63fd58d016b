"""The first ten minutes: nothing configured, something wrong, something slow, one that works."""

import hashlib
import json
import signal
import sys
from collections import Counter

import pytest

from tests.e2e.support import PATIENCE, Launcher, alive, answers, fake, until


def test_without_a_config_file_it_runs_with_zero_servers_and_says_so(launcher: Launcher) -> None:
    daemon = launcher.spawn()
    until(lambda: any("listening at" in line or "the port is taken" in line for line in daemon.said()))
    if "the port is taken" in daemon.said()[-1]:
        pytest.skip("somebody else on this machine has the port that a daemon uses without a configuration")

    assert daemon.client.result("servers/list") == {"servers": []}
    assert daemon.client.tools() == []
    assert daemon.said("warning") == [
        f"no config file found (looked at {launcher.config}): running with zero servers"
    ]


def test_a_disabled_server_has_no_process_and_no_tools(launcher: Launcher) -> None:
    daemon = launcher.start({"off": fake(enabled=False)})

    assert daemon.client.server("off")["state"] == "disabled"
    assert daemon.client.tools() == []
    assert daemon.pids() == set()


def test_a_thousand_servers_are_judged_and_the_one_that_works_answers(launcher: Launcher) -> None:
    broken = {f"broken{number}": {"command": f"/does/not/exist/{number}"} for number in range(1000)}
    launcher.configure({**broken, "works": fake()})
    daemon = launcher.spawn()
    until(lambda: answers(daemon))

    until(lambda: daemon.client.result("tools/list")["complete"], seconds=2 * PATIENCE)

    servers = daemon.client.result("servers/list")["servers"]
    assert Counter(server["state"] for server in servers) == {"unavailable": 1000, "connected": 1}
    assert daemon.client.text("works_echo", text="hello") == '{"text": "hello"}'
    assert len(daemon.pids()) == 1


def test_servers_that_cannot_work_are_named_with_the_true_reason_and_the_good_one_works(
    either_loop: Launcher,
) -> None:
    daemon = either_loop.start(
        {"cat": {"command": "/bin/cat"}, "missing": {"command": "/does/not/exist"}, "good": fake()}
    )

    client = daemon.client
    states = {server["name"]: server["state"] for server in client.result("servers/list")["servers"]}
    assert states == {"cat": "unavailable", "good": "connected", "missing": "unavailable"}
    assert "sends back what it is sent" in client.server("cat")["reason"]
    assert client.server("missing")["reason"] == "cannot find /does/not/exist: no such file"
    assert client.text("good_echo", word="hello") == '{"word": "hello"}'


def test_a_server_that_never_answers_is_given_up_and_its_process_is_gone(launcher: Launcher) -> None:
    daemon = launcher.start({"mute": {"command": "sleep", "args": ["1000"], "startTimeout": 0.5}})

    mute = daemon.client.server("mute")
    assert (mute["state"], mute["pid"]) == ("unavailable", None)
    assert mute["reason"] == "did not answer within 0.5 s"
    assert mute["run"] == 1
    assert daemon.pids() == set()


def test_a_slow_server_delays_neither_the_socket_nor_the_others(launcher: Launcher) -> None:
    launcher.configure({"slow": fake("--slow-start", 1000), "good": fake("--tools", 1)})
    daemon = launcher.spawn()
    until(lambda: answers(daemon))

    until(lambda: daemon.client.tools() == ["good_echo"])

    listing = daemon.client.result("tools/list")
    assert (listing["complete"], listing["pending"]) == (False, ["slow"])


def test_one_wrong_entry_costs_that_server_and_no_other(launcher: Launcher) -> None:
    daemon = launcher.start({"wrong": {"command": 7}, "unset": {"command": "${NOWHERE}"}, "good": fake()})

    wrong, unset = daemon.client.server("wrong"), daemon.client.server("unset")
    assert wrong["state"] == unset["state"] == "unavailable"
    assert wrong["reason"].startswith("bad config: ")
    assert "NOWHERE" in unset["reason"]
    assert daemon.client.text("good_counter") == "1"


def test_a_file_that_is_not_json_is_a_bad_configuration(launcher: Launcher) -> None:
    launcher.config.write_text('{"mcpServers": ', encoding="utf-8")

    daemon = launcher.spawn()

    assert daemon.wait() == 78
    [error] = daemon.said("error")
    assert str(launcher.config) in error
    assert not launcher.socket.exists()


def test_a_stopped_daemon_leaves_no_child_and_no_socket(either_loop: Launcher) -> None:
    daemon = either_loop.start({"one": fake(), "two": fake("--grandchild", "double-fork")})
    pids = daemon.pids()

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert len(pids) == 3
    assert not any(map(alive, pids))
    assert not either_loop.socket.exists()
    assert daemon.said()[-1] == "stopped, nothing left"


def test_every_child_carries_the_token_by_which_it_can_be_found(launcher: Launcher) -> None:
    daemon = launcher.start({"one": fake(), "two": fake()})

    servers = daemon.client.result("servers/list")["servers"]
    assert {server["pid"] for server in servers} == set(daemon.tokened())


@pytest.fixture
def demo(either_loop: Launcher) -> Launcher:
    either_loop.start({"demo": {"command": sys.executable, "args": ["-m", "supervisor.demo"]}})
    return either_loop


def test_a_user_types_status_tools_call_and_shutdown(demo: Launcher) -> None:
    status, tools = demo.command("status"), demo.command("tools", "--json")
    call = demo.command("call", "demo_hash_text", "text=hello")
    shutdown = demo.command("shutdown")

    assert "demo  connected" in status.stdout
    assert all(tool["name"].startswith("demo_") for tool in json.loads(tools.stdout)["tools"])
    assert hashlib.sha256(b"hello").hexdigest() in call.stdout
    assert shutdown.stdout == "the daemon has stopped\n"
    assert [done.returncode for done in (status, tools, call, shutdown)] == [0, 0, 0, 0]
    assert demo.started[0].wait() == 0
