"""Streamable HTTP servers that nobody here wrote, beside one on stdio: used alike, lost and found again.

`tests/system/prepare` installs them: the official SDKs for Python and TypeScript.
"""

import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.support import Client, Daemon, Json, Launcher, launching, until
from tests.ports import reserved

INSTALLED = Path(__file__).parents[2] / ".tools"
PYTHON = INSTALLED / "python/bin/python"
EVERYTHING = INSTALLED / "node/node_modules/.bin/mcp-server-everything"
SDK_SERVER = Path(__file__).with_name("sdk_server.py")
MISSING = [path for path in (PYTHON, EVERYTHING) if not path.exists()]
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}; run tests/system/prepare"),
]
SLOW_START = 60.0
"""Seconds in which a real server must have come up on a busy machine."""
CALLS = 100
AT_ONCE = 25


class Machine:
    """The servers on loopback ports, and the daemon that knows of them."""

    def __init__(self, directory: Path, launcher: Launcher, **ports: int) -> None:
        self.journal = directory / "journal"
        self.journal.touch()
        self.ports = ports
        self._launcher = launcher
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self, name: str) -> None:
        """Start one of the HTTP servers."""
        port = self.ports[name]
        commands: dict[str, list[str | Path]] = {
            "python": [PYTHON, SDK_SERVER, self.journal, str(port)],
            "node": [EVERYTHING, "streamableHttp"],
        }
        self.processes[name] = subprocess.Popen(
            commands[name],
            env={**self._launcher.environment, "PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def answers(self, daemon: Daemon) -> bool:
        """Whether every server is connected; fails at once when one of ours has ended instead."""
        ended = {
            name: code for name, process in self.processes.items() if (code := process.poll()) is not None
        }
        assert not ended, f"ended with these codes: {ended}"
        return {*states(daemon).values()} == {"connected"}

    def lose(self, name: str) -> None:
        """Take a server away without a goodbye."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(SLOW_START)

    def start(self) -> Daemon:
        python = f"http://127.0.0.1:{self.ports['python']}/mcp"
        restart = {"policy": "on-failure", "maxFailures": 1000, "maxDelay": 1}
        servers: dict[str, Json] = {
            "modern": {"url": python, "restart": restart},
            "handshake": {"url": python, "protocol": "2025-11-25", "restart": restart},
            "node": {"url": f"http://127.0.0.1:{self.ports['node']}/mcp", "restart": restart},
            "stdio": {"command": str(PYTHON), "args": [str(SDK_SERVER), str(self.journal)]},
        }
        self._launcher.configure(servers, policy="open")
        daemon = self._launcher.spawn()
        until(daemon.socket.exists)
        until(lambda: self.answers(daemon), seconds=SLOW_START)
        return daemon

    def written(self) -> Counter[str]:
        """How often each mark was given to a server."""
        return Counter(self.journal.read_text().splitlines())


def states(daemon: Daemon) -> dict[str, str]:
    return {server["name"]: server["state"] for server in daemon.client.result("servers/list")["servers"]}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with launching(tmp_path) as launcher, reserved() as python, reserved() as node:
        machine = Machine(tmp_path, launcher, python=python, node=node)
        try:
            machine.serve("python")
            machine.serve("node")
            yield machine
        finally:
            for name in list(machine.processes):
                machine.lose(name)


def test_servers_of_both_eras_and_transports_are_listed_and_called_alike(machine: Machine) -> None:
    daemon = machine.start()

    answers = {name: daemon.client.text(f"{name}_echo", message="hello") for name in states(daemon)}

    assert answers == dict.fromkeys(("handshake", "modern", "node", "stdio"), "Echo: hello")
    assert {f"{name}_echo" for name in answers} <= {*daemon.client.tools()}
    versions = {name: daemon.client.server(name)["protocol"] for name in answers}
    assert (versions["modern"], versions["handshake"]) == ("2026-07-28", "2025-11-25")


@pytest.mark.parametrize("name", ["python", "node"])
def test_a_server_that_goes_away_is_unavailable_and_found_again_without_a_command(
    machine: Machine, name: str
) -> None:
    daemon = machine.start()
    entries = ("modern", "handshake") if name == "python" else ("node",)

    machine.lose(name)

    for entry in entries:
        # It either fails or, where the end of a stream was seen first, waits for the server in vain.
        request = {"name": f"{entry}_echo", "arguments": {"message": "x"}, "timeout": 0.5}
        assert daemon.client.error("tools/call", **request)["data"]["outcome"] in ("not_sent", "unknown")
    until(lambda: {states(daemon)[entry] for entry in entries} <= {"unavailable", "connecting"})
    assert not [tool for tool in daemon.client.tools() if tool.startswith(entries)]
    assert states(daemon)["stdio"] == "connected"
    machine.serve(name)
    until(lambda: {states(daemon)[entry] for entry in entries} == {"connected"}, seconds=SLOW_START)
    for entry in entries:
        assert daemon.client.text(f"{entry}_echo", message="y") == "Echo: y"


def test_every_call_ends_once_with_a_true_outcome_while_its_server_goes_and_comes(machine: Machine) -> None:
    daemon = machine.start()
    fates = Fates()
    with fates.asking(daemon) as ask_more:
        ask_more()
        until(lambda: machine.written().total() >= CALLS // 2)
        machine.lose("python")
        ask_more()
        until(lambda: fates.outcomes()["unknown"])
        machine.serve("python")
        until(lambda: machine.answers(daemon), seconds=SLOW_START)
        ask_more()
    written = machine.written()

    assert len(fates.ends) == 3 * CALLS
    assert {len(ends) for ends in fates.ends.values()} == {1}
    assert {mark for mark, ends in fates.ends.items() if ends == ["ok"]} <= written.keys()
    assert not {mark for mark, ends in fates.ends.items() if ends == ["not_sent"]} & written.keys()
    assert {*written.values()} == {1}, "no call was sent twice"
    assert {*fates.outcomes()} <= {"ok", "unknown", "not_sent"}


class Fates:
    """A hundred calls at a time over four connections, and how each of them ended."""

    def __init__(self) -> None:
        self.ends: dict[str, list[str]] = {}
        self._clients: list[tuple[Client, dict[int, str]]] = []

    def outcomes(self) -> Counter[str]:
        """What has ended so far; reads what has arrived without waiting for more."""
        for client, asked in self._clients:
            self._read(client, asked, more=lambda: bool(pending(client)))  # noqa: B023 - used at once
        return Counter(end for ends in self.ends.values() for end in ends)

    @contextmanager
    def asking(self, daemon: Daemon) -> Iterator[Callable[[], None]]:
        """Within, each call of what is given asks a hundred times more; on the way out all have ended."""

        def ask_more() -> None:
            for number in range(CALLS // AT_ONCE):
                client, asked = daemon.connect(), dict[int, str]()
                self._clients.append((client, asked))
                for turn in range(AT_ONCE):
                    server = ("modern", "handshake", "stdio")[turn % 3]
                    mark = f"{len(self._clients)}.{number}.{turn}"
                    self.ends[mark] = []
                    arguments = {"mark": mark, "seconds": 1.0}
                    asked[client.ask("tools/call", name=f"{server}_note", arguments=arguments)] = mark

        yield ask_more
        for client, asked in self._clients:
            self._read(client, asked, more=lambda: bool(asked))  # noqa: B023 - used at once

    def _read(self, client: Client, asked: dict[int, str], *, more: Callable[[], bool]) -> None:
        while asked and more():
            answer = client.receive()
            mark = asked.pop(answer["id"])
            self.ends[mark].append("ok" if "result" in answer else answer["error"]["data"]["outcome"])


def pending(client: Client) -> bytes:
    """What can be read at once."""
    client.socket.setblocking(False)
    try:
        with suppress(BlockingIOError):
            return client.socket.recv(1, socket.MSG_PEEK)
        return b""
    finally:
        client.socket.settimeout(SLOW_START)
