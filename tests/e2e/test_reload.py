"""Reloading: only what changed is touched, and what cannot be used changes nothing."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Launcher, fake, launching, until
from tests.files import save


def pids(client: Any) -> dict[str, int | None]:
    return {server["name"]: server["pid"] for server in client.result("servers/list")["servers"]}


def test_a_reload_says_and_does_only_what_changed(launcher: Launcher) -> None:
    servers = {"same": fake(), "tuned": fake(), "other": fake("--tools", 1), "gone": fake()}
    daemon = launcher.start(servers)
    before = pids(daemon.client)

    done = launcher.reload(
        daemon, {"same": fake(), "tuned": fake(callTimeout=5), "other": fake("--tools", 2), "fresh": fake()}
    )

    assert done["ok"]
    assert done["plan"] == {
        "fresh": "add",
        "gone": "remove",
        "other": "replace",
        "same": "unchanged",
        "tuned": "retune",
    }
    after = pids(daemon.client)
    assert (after["same"], after["tuned"]) == (before["same"], before["tuned"])
    assert after["other"] != before["other"]
    assert after.keys() == {"fresh", "other", "same", "tuned"}
    assert "other_echo_2" in daemon.client.tools()


def test_a_file_that_is_not_json_changes_nothing_and_is_shown(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    before = pids(daemon.client)
    save(launcher.config, "{")

    error = daemon.client.error("supervisor/reload")

    assert error["code"] == -32010
    assert "line 1" in error["message"] or ":1:" in error["message"]
    assert pids(daemon.client) == before
    assert daemon.client.result("supervisor/info")["problems"]
    launcher.configure({"s": fake()})
    daemon.client.result("supervisor/reload")
    assert daemon.client.result("supervisor/info")["problems"] == []


def linked_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def in_the_form_of_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def open_to_others(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (linked_to_itself, "cannot read {}: Too many levels of symbolic links"),
        (in_the_form_of_a_directory, "cannot read {}: it is not a regular file; name a file"),
        (open_to_others, "cannot trust {0}: everybody may write it; run chmod o-w {0}"),
    ],
)
def test_a_file_that_cannot_be_read_any_more_changes_nothing_and_is_shown(
    launcher: Launcher, spoil: Callable[[Path], None], sentence: str
) -> None:
    daemon = launcher.start({"s": fake()})
    before = pids(daemon.client)
    spoil(launcher.config)

    error = daemon.client.error("supervisor/reload")

    assert error["code"] == -32010
    assert sentence.format(launcher.config) in error["message"]
    assert pids(daemon.client) == before
    assert sentence.format(launcher.config) in str(daemon.client.result("supervisor/info")["problems"])
    assert daemon.client.text("s_echo", still="here") == '{"still": "here"}'


def test_a_replacement_that_fails_leaves_the_old_run_serving(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    before = pids(daemon.client)
    launcher.configure({"s": fake("--exit-at", "spawn")})

    done = daemon.client.result("supervisor/reload")

    assert done["results"]["s"].endswith("the old run stays")
    assert pids(daemon.client) == before
    assert daemon.client.text("s_echo", hello=1)
    assert "the old run stays" in launcher.command("status").stdout
    assert launcher.command("reload").returncode == 1


def test_a_call_under_way_finishes_on_the_run_that_is_replaced(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    caller = daemon.connect()
    old = daemon.client.server("s")["pid"]
    gate = launcher.directory / "gate"
    caller.ask("tools/call", name="s_hold", arguments={"file": str(gate)})
    until(lambda: daemon.client.server("s")["pending"])
    launcher.configure({"s": fake("--tools", 2)})

    daemon.client.result("supervisor/reload")

    assert daemon.client.server("s")["pid"] != old
    gate.touch()
    assert "result" in caller.receive()
    until(lambda: old not in daemon.pids())


def test_an_exclusive_server_is_stopped_before_its_successor_starts(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake(exclusive=True)})
    old = daemon.client.server("s")["pid"]
    launcher.configure({"s": fake("--tools", 2, exclusive=True)})

    daemon.client.result("supervisor/reload")

    assert old not in daemon.pids()
    assert daemon.client.server("s")["state"] == "connected"


def test_hangup_reloads(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    launcher.configure({"s": fake(), "t": fake()})

    daemon.signal(signal.SIGHUP)

    until(lambda: "t_echo" in daemon.client.tools())


def test_what_is_disabled_at_one_daemon_is_not_at_another(
    launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with launching(tmp_path_factory.mktemp("other")) as other:
        other.environment["XDG_STATE_HOME"] = launcher.environment["XDG_STATE_HOME"]
        here, there = launcher.start({"s": fake()}), other.start({"s": fake()})
        here.client.result("servers/disable", server="s")
        there.end()

        again = other.start({"s": fake()})

        assert again.client.server("s")["state"] == "connected"
        assert here.client.server("s")["state"] == "disabled"


def test_a_server_whose_entry_is_wrong_now_is_told_apart_and_can_be_disabled(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    before = pids(daemon.client)
    launcher.configure({"s": fake(callTimeout="5")})
    daemon.client.result("supervisor/reload")

    assert pids(daemon.client) == before
    assert "not as its entry says now" in launcher.command("status").stdout
    told = launcher.command("why", "s").stdout
    assert "mcpServers.s.callTimeout" in told
    assert "Nothing to do" not in told
    assert daemon.client.result("servers/disable", server="s")["state"] == "disabled"
    until(lambda: not daemon.pids())
    assert daemon.client.result("servers/enable", server="s", reset=True)["state"] == "connected"


def test_a_server_whose_entry_never_was_right_is_neither_disabled_nor_remembered_as_such(
    launcher: Launcher,
) -> None:
    daemon = launcher.start({"s": {"command": 5}})

    assert "its entry is wrong" in daemon.client.error("servers/disable", server="s")["message"]

    assert launcher.reload(daemon, {"s": fake()})["ok"]
    assert daemon.client.server("s")["state"] == "connected"


def test_disabling_outlives_the_daemon_and_enabling_undoes_it(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    assert daemon.client.result("servers/disable", server="s")["state"] == "disabled"
    daemon.end()
    again = launcher.start({"s": fake()})
    assert again.client.server("s")["state"] == "disabled"

    assert again.client.result("servers/enable", server="s")["state"] == "connected"


@pytest.mark.parametrize("order", ["enable", "disable"])
@pytest.mark.parametrize(("enabled", "state"), [(True, "connected"), (False, "disabled")])
def test_after_a_reset_the_entry_counts_again(
    launcher: Launcher, order: str, enabled: bool, state: str
) -> None:
    daemon = launcher.start({"s": fake(enabled=enabled)})
    assert daemon.client.result(f"servers/{order}", server="s")["overridden"] is True

    reset = daemon.client.result(f"servers/{order}", server="s", reset=True)

    assert (reset["state"], reset["overridden"]) == (state, False)
    assert (reset["reason"] == "disabled in its entry") is not enabled


def test_a_reset_outlives_the_daemon(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    daemon.client.result("servers/disable", server="s")
    assert launcher.command("disable", "s", "--reset").stdout == "s: connected\n"
    daemon.end()

    again = launcher.start({"s": fake()})

    assert again.client.server("s")["state"] == "connected"


@pytest.mark.parametrize("order", ["enable", "disable"])
def test_what_was_said_of_a_removed_server_can_be_forgotten(launcher: Launcher, order: str) -> None:
    daemon = launcher.start({"s": fake(), "t": fake()})
    daemon.client.result("servers/disable", server="s")
    launcher.configure({"t": fake()})
    daemon.client.result("supervisor/reload")

    forgotten = launcher.command(order, "s", "--reset")
    again = launcher.command(order, "s", "--reset")

    assert (forgotten.returncode, again.returncode) == (0, 3)
    assert forgotten.stdout == "s: stopped (not configured; what was said by hand is forgotten)\n"
    launcher.configure({"s": fake(), "t": fake()})
    daemon.client.result("supervisor/reload")
    assert daemon.client.server("s")["state"] == "connected"


def test_the_status_shows_who_switched_a_server(launcher: Launcher) -> None:
    daemon = launcher.start({"off": fake(), "on": fake(enabled=False), "s": fake()})
    daemon.client.result("servers/disable", server="off")
    daemon.client.result("servers/enable", server="on")

    notes = [line.rpartition("  ")[2] for line in launcher.command("status").stdout.splitlines()]

    assert notes[1:3] == ["disabled by an operator", "enabled by an operator"]
    assert "--reset" in launcher.command("status", "on").stdout
    assert "overridden" not in launcher.command("status", "s").stdout


def test_an_order_that_a_bad_file_prevents_is_not_carried_out_later(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    save(launcher.config, "{")

    assert daemon.client.error("servers/disable", server="s")["code"] == -32010

    launcher.configure({"s": fake(callTimeout=5)})
    daemon.client.result("supervisor/reload")
    server = daemon.client.server("s")
    assert (server["state"], server["overridden"]) == ("connected", False)


def test_an_order_to_one_server_does_not_wait_for_the_start_of_another(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    launcher.configure({"s": fake(), "slow": fake("--silent")})
    until(lambda: "slow" in pids(daemon.client))

    assert daemon.client.result("servers/disable", server="s")["state"] == "disabled"
    daemon.client.result("servers/enable", server="s", wait=False)

    until(lambda: daemon.client.server("s")["state"] == "connected")
    assert daemon.client.server("slow")["state"] == "connecting"


def test_a_bad_entry_keeps_its_last_good_run(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake(), "t": fake()})
    before = pids(daemon.client)

    done = launcher.reload(daemon, {"s": {"command": 5}, "t": fake(), "u": fake()})

    assert done["plan"] == {"s": "unchanged", "t": "unchanged", "u": "add"}
    assert any("command" in problem for problem in done["problems"])
    assert pids(daemon.client)["s"] == before["s"]
    assert launcher.command("reload").returncode == 78
