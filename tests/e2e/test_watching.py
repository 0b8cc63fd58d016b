"""The configuration is edited while the daemon works: it follows, and nobody who is not concerned notices.

`MCP_SUPERVISOR_EDITS` raises the number of random edits, for a soak.
"""

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Client, Daemon, Json, Launcher, fake, until

EDITS = int(os.environ.get("MCP_SUPERVISOR_EDITS", "60"))
SEED = 5


def save(path: Path, servers: Json, **form: Any) -> None:
    """Save as most editors do: a new file, renamed over the old one."""
    fresh = path.with_name("mcp.json.new")
    fresh.write_text(json.dumps({"mcpServers": servers}, **form), encoding="utf-8")
    fresh.replace(path)


def pids(client: Client) -> dict[str, int | None]:
    return {server["name"]: server["pid"] for server in client.result("servers/list")["servers"]}


def applied(daemon: Daemon) -> bool:
    """Whether the fleet is as the file says."""
    plan = daemon.client.result("supervisor/reload", dryRun=True)["plan"]
    return set(plan.values()) == {"unchanged"} and daemon.client.settled()


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
    launcher.config.write_text('{\n  "mcpServers": {,}\n}', encoding="utf-8")

    problems = until(lambda: daemon.client.result("supervisor/info")["problems"])

    assert problems[0].startswith(f"{launcher.config}:2:18: ")
    assert pids(daemon.client) == before
    save(launcher.config, {"s": fake()})
    until(lambda: daemon.client.result("supervisor/info")["problems"] == [])
    assert pids(daemon.client) == before


def test_a_changed_secret_replaces_exactly_its_server_and_is_not_logged(launcher: Launcher) -> None:
    secret = launcher.directory / "token"
    secret.write_text("first-secret", encoding="utf-8")
    servers = {"keyed": fake(env={"TOKEN": "{file:token}"}), "other": fake()}
    daemon = launcher.start(servers)
    before = pids(daemon.client)

    secret.write_text("second-secret", encoding="utf-8")

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


class Caller(threading.Thread):
    """A client that calls one tool again and again, and keeps what went wrong."""

    def __init__(self, daemon: Daemon, tool: str) -> None:
        super().__init__(name=f"caller of {tool}")
        self._client, self._tool, self._over = daemon.connect(), tool, threading.Event()
        self.calls, self.wrong = 0, list[Any]()

    def run(self) -> None:
        while not self._over.is_set():
            answer = self._client.reply("tools/call", name=self._tool, arguments={"text": "x"})
            self.calls += 1
            if "result" not in answer:
                self.wrong.append(answer)

    def end(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def calling(daemon: Daemon, *tools: str) -> Iterator[list[Caller]]:
    callers = [Caller(daemon, tool) for tool in tools]
    for caller in callers:
        caller.start()
    try:
        yield callers
    finally:
        for caller in callers:
            caller.end()


class Editor:
    """Somebody who edits the file in every way, always the same for a seed."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path, self._chance = path, random.Random(seed)
        self.servers: dict[str, Json] = {"same": fake(), "changes": fake()}

    def edit(self) -> None:
        getattr(self, f"_{self._chance.choice(('add', 'remove', 'launch', 'tune', 'form'))}")()
        form: Json = {"indent": self._chance.choice((None, 1, 4)), "sort_keys": self._chance.random() < 0.5}
        if self._chance.random() < 0.5:
            save(self._path, self.servers, **form)
        else:
            self._path.write_text(json.dumps({"mcpServers": self.servers}, **form), encoding="utf-8")

    def _add(self) -> None:
        self.servers[f"s{self._chance.randrange(6)}"] = fake(env={"N": str(self._chance.random())})

    def _remove(self) -> None:
        removable = [name for name in self.servers if name not in {"same", "changes"}]
        if removable:
            del self.servers[self._chance.choice(removable)]

    def _launch(self) -> None:
        self.servers["changes"] = fake(env={"N": str(self._chance.random())})

    def _tune(self) -> None:
        self.servers["same"] = fake(callTimeout=self._chance.randint(50, 60))

    def _form(self) -> None:
        """Change nothing but how it is written."""


@pytest.mark.timeout(60 + 5 * EDITS)
def test_random_edits_are_followed_and_no_call_fails(launcher: Launcher) -> None:
    editor = Editor(launcher.config, SEED)
    daemon = launcher.start(editor.servers)
    same = pids(daemon.client)["same"]

    with calling(daemon, "same_echo", "changes_echo") as callers:
        for number in range(EDITS):
            editor.edit()
            if number % 2:  # the other half come while the one before is still being applied
                until(lambda: applied(daemon))
        until(lambda: applied(daemon))

    assert pids(daemon.client).keys() == editor.servers.keys()
    until(lambda: daemon.pids() == set(pids(daemon.client).values()))
    assert pids(daemon.client)["same"] == same
    assert [caller.wrong for caller in callers] == [[], []]
    assert min(caller.calls for caller in callers) > EDITS
