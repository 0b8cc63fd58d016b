"""The configuration is edited while the daemon works: it follows, and nobody who is not concerned notices."""

import signal

import pytest

from tests import files
from tests.e2e.edit_support import follow_random_edits, pids, save
from tests.e2e.support import Json, Launcher, fake, until

EDITS = 60
"""`tests/system/test_thousand_edits.py` makes the same ones, and many more."""


def test_a_save_is_applied_and_only_what_changed_is_touched(launcher: Launcher) -> None:
    daemon = launcher.start({"same": fake(), "gone": fake()})
    before = pids(daemon.client)

    save(launcher.config, {"same": fake(), "fresh": fake()}, indent=2)

    until(lambda: "fresh_echo" in daemon.client.tools())
    after = pids(daemon.client)
    assert after["same"] == before["same"]
    assert after.keys() == {"same", "fresh"}


def test_a_typo_is_shown_with_its_place_until_it_is_mended(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    before = pids(daemon.client)
    files.save(launcher.config, '{\n  "mcpServers": {,}\n}')

    place = f"{launcher.config}:2:18: "
    until(lambda: f"problem: {place}" in launcher.command("status").stdout)
    assert [place in line for line in daemon.said("error")] == [True]
    assert pids(daemon.client) == before
    save(launcher.config, {"s": fake()})
    until(lambda: "problem" not in launcher.command("status").stdout)
    assert pids(daemon.client) == before


def test_a_changed_secret_replaces_exactly_its_server_and_is_not_logged(launcher: Launcher) -> None:
    secret = launcher.directory / "token"
    secret.write_text("first-secret", encoding="utf-8")
    servers = {"keyed": fake(env={"TOKEN": "{file:token}"}), "other": fake()}
    daemon = launcher.start(servers)
    before = pids(daemon.client)

    files.save(secret, "second-secret")

    until(lambda: pids(daemon.client)["keyed"] != before["keyed"])
    assert pids(daemon.client)["other"] == before["other"]
    assert "-secret" not in daemon.log.read_text(encoding="utf-8")


def test_fifty_saves_in_a_row_end_in_the_last_one(launcher: Launcher) -> None:
    daemon = launcher.start({"same": fake()})
    before = pids(daemon.client)

    for number in range(50):
        save(launcher.config, {"same": fake(), f"s{number % 7}": fake(env={"N": str(number)})})

    until(lambda: pids(daemon.client).keys() == {"same", "s0"} and daemon.client.settled())
    until(lambda: len(daemon.pids()) == 2)
    assert pids(daemon.client)["same"] == before["same"]


def test_a_server_that_never_gets_ready_does_not_hold_up_the_next_save(launcher: Launcher) -> None:
    daemon = launcher.start({"same": fake()})
    save(launcher.config, {"same": fake(), "stuck": fake("--silent")})
    until(lambda: "stuck" in pids(daemon.client))

    save(launcher.config, {"same": fake(callTimeout=5), "fresh": fake()})

    until(lambda: "fresh_echo" in daemon.client.tools())
    assert pids(daemon.client).keys() == {"same", "fresh"}


def test_a_removed_server_finishes_its_call_and_is_stopped(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake(), "t": fake()})
    caller = daemon.connect()
    removed = pids(daemon.client)["s"]
    caller.ask("tools/call", name="s_sleep", arguments={"seconds": 1})
    until(lambda: daemon.client.server("s")["pending"])

    save(launcher.config, {"t": fake()})

    until(lambda: "s_sleep" not in daemon.client.tools())
    assert daemon.client.refusal("s_sleep")["data"]["outcome"] in {"rejected", "not_sent"}
    assert "result" in caller.receive()
    until(lambda: removed not in daemon.pids())


@pytest.mark.parametrize("entry", [fake("--slow-start", 30), fake()], ids=["never ready", "ready"])
def test_the_end_comes_first_in_the_middle_of_a_reload(launcher: Launcher, entry: Json) -> None:
    daemon = launcher.start({"s": fake()})
    save(launcher.config, {"s": entry | {"env": {"A": "b"}}, "t": entry})
    until(lambda: len(daemon.pids()) > 1)

    daemon.signal(signal.SIGTERM)

    assert daemon.wait() == 0
    assert daemon.said("error") == []


def test_limits_apply_to_those_who_connect_afterwards(launcher: Launcher) -> None:
    daemon = launcher.start({})

    launcher.configure({}, limits={"clients": 1}, maxLineBytes=1 << 20)

    until(lambda: "reloaded: nothing changed" in daemon.said())
    refused = daemon.connect()
    assert "cannot serve more clients" in refused.receive()["error"]["message"]
    assert daemon.said("warning")[-1] == "restart the daemon to apply the changed settings: maxLineBytes"


def test_random_edits_are_followed_and_no_call_fails(launcher: Launcher) -> None:
    follow_random_edits(launcher, EDITS)
