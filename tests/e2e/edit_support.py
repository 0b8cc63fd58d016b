"""Somebody who edits the configuration in every way, others who call meanwhile, and what must be so then."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import files
from tests.e2e.support import Client, Daemon, Json, Launcher, fake, until

SEED = 5


def save(path: Path, servers: Json, **form: Any) -> None:
    files.save(path, json.dumps({"mcpServers": servers}, **form))


def pids(client: Client) -> dict[str, int | None]:
    return {server["name"]: server["pid"] for server in client.result("servers/list")["servers"]}


def applied(daemon: Daemon) -> bool:
    """Whether the fleet is as the file says."""
    plan = daemon.client.result("supervisor/reload", dryRun=True)["plan"]
    return set(plan.values()) == {"unchanged"} and daemon.client.settled()


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


def follow_random_edits(launcher: Launcher, count: int, *, seed: int = SEED) -> None:
    """Edit so many times, and see that the daemon follows and no caller notices."""
    editor = Editor(launcher.config, seed)
    daemon = launcher.start(editor.servers)
    same = pids(daemon.client)["same"]

    with calling(daemon, "same_echo", "changes_echo") as callers:
        for number in range(count):
            editor.edit()
            if number % 2:  # the other half come while the one before is still being applied
                until(lambda: applied(daemon))
        until(lambda: applied(daemon))

    assert pids(daemon.client).keys() == editor.servers.keys()
    until(lambda: daemon.pids() == set(pids(daemon.client).values()))
    assert pids(daemon.client)["same"] == same
    assert [caller.wrong for caller in callers] == [[], []]
    assert min(caller.calls for caller in callers) > count
