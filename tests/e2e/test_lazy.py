"""Lazy servers: listed from memory, started by their first call, and asleep again when nobody uses them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Client, Daemon, Json, Launcher, fake, until

SECRET = "correct-horse-battery"


def again(launcher: Launcher, servers: dict[str, Json]) -> Daemon:
    """A second daemon, after one that has seen these servers and has ended."""
    launcher.start(servers).end()
    return launcher.start(servers)


def lazy(*options: object, **keys: Any) -> Json:
    return fake(*options, start="lazy", **keys)


def kept(launcher: Launcher) -> list[Path]:
    return sorted((launcher.directory / "state/mcp-supervisor/tools").glob("*"))


def echo_of(client: Client) -> Json:
    tools: list[Json] = client.result("tools/list")["tools"]
    return next(tool for tool in tools if tool["name"] == "s_echo")


def test_a_lazy_server_that_was_seen_before_is_listed_without_a_process(launcher: Launcher) -> None:
    daemon = again(launcher, {f"s{number}": lazy() for number in range(5)})

    assert daemon.pids() == set()
    listed = daemon.client.result("tools/list")
    assert listed["complete"] is True
    assert {"s0_echo", "s4_echo"} <= {tool["name"] for tool in listed["tools"]}
    assert [server["run"] for server in daemon.client.result("servers/list")["servers"]] == [0] * 5


def test_its_first_call_starts_it_and_only_it(launcher: Launcher) -> None:
    daemon = again(launcher, {"s": lazy(), "t": lazy()})

    assert daemon.client.text("s_echo", n=1) == '{"n": 1}'

    assert [daemon.client.server(name)["state"] for name in "st"] == ["connected", "idle"]


def test_remembered_tools_are_marked_until_a_run_has_listed_them(launcher: Launcher) -> None:
    daemon = again(launcher, {"s": lazy()})
    client = daemon.client
    assert echo_of(client)["_meta"]["remembered"] is True
    assert (client.server("s")["remembered"], client.result("servers/list")["servers"][0]["remembered"]) == (
        True,
        True,
    )
    assert "tools remembered" in launcher.command("status").stdout
    assert "before this daemon started" in launcher.command("status", "s").stdout

    client.text("s_echo")

    assert "remembered" not in echo_of(client)["_meta"]
    assert client.server("s")["remembered"] is False


def test_a_changed_command_is_not_believed(launcher: Launcher) -> None:
    launcher.start({"s": lazy()}).end()

    daemon = launcher.start({"s": lazy("--tools", "2")})

    assert daemon.client.server("s")["run"] == 1
    assert daemon.client.tools() == ["s_echo", "s_echo_2"]


def test_an_eager_server_is_not_remembered(launcher: Launcher) -> None:
    launcher.start({"s": fake()})

    assert kept(launcher) == []


def test_a_server_that_becomes_lazy_is_remembered_from_then_on(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})

    assert launcher.reload(daemon, {"s": lazy()})["plan"] == {"s": "retune"}

    assert len(kept(launcher)) == 1


def test_a_broken_file_costs_one_start_and_one_line(launcher: Launcher) -> None:
    launcher.start({"s": lazy()}).end()
    (file,) = kept(launcher)
    file.write_text("{")

    daemon = launcher.start({"s": lazy()})

    assert daemon.client.server("s")["run"] == 1
    assert len([line for line in daemon.said("warning") if "cannot use" in line]) == 1
    assert json.loads(file.read_bytes())["tools"]


def test_a_secret_is_never_kept_even_when_the_server_lists_it(launcher: Launcher) -> None:
    tools = launcher.directory / "tools.json"
    described = [{"name": "t", "inputSchema": {"type": "object", "enum": [SECRET]}}]
    tools.write_text(json.dumps(described).replace("c", "\\u0063"))

    launcher.start({"s": lazy("--tools-json", tools, env={"KEY": SECRET})})

    assert kept(launcher) == []
    assert not [
        path
        for path in (launcher.directory / "state").rglob("*")
        if path.is_file() and SECRET in path.read_text()
    ]


def test_tools_stay_listed_and_the_listing_stays_the_same_while_a_server_sleeps_and_wakes(
    launcher: Launcher,
) -> None:
    daemon = launcher.start({"s": lazy(idleTimeout=0.2, stopGrace=0.2)})
    generation = daemon.client.result("tools/list")["generation"]
    until(lambda: daemon.client.server("s")["state"] == "idle")

    for _ in range(3):
        daemon.client.text("s_echo")
        until(lambda: daemon.client.server("s")["state"] == "idle")

    assert daemon.client.result("tools/list")["generation"] == generation
    assert daemon.client.server("s")["run"] == 4


@pytest.mark.parametrize("restart", ["never", {"policy": "on-failure", "delay": 30}])
def test_a_remembered_server_that_cannot_be_started_any_more_says_so(
    launcher: Launcher, tmp_path: Path, restart: Any
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    script = f'test -e {flag} && exec "$@"; exit 3'
    plain = fake()
    entry = {"command": "sh", "args": ["-c", script, "sh", plain["command"], *plain["args"]]}
    servers = {"s": {**entry, "start": "lazy", "restart": restart, "callTimeout": 2}}
    daemon = again(launcher, servers)
    flag.unlink()

    refusal = daemon.client.refusal("s_echo")

    assert refusal["data"]["outcome"] in ("not_sent", "timed_out")
    until(lambda: daemon.client.server("s")["state"] == "unavailable")
    assert "s_echo" not in daemon.client.tools()
