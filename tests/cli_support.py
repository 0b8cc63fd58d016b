"""A daemon that answers from a script: a real Unix socket, a thread for each client, no fleet behind it."""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WAIT = 15.0

Message = dict[str, Any]
Answer = Mapping[str, Any] | Callable[["Connection", Message], None]
"""The members of a reply (`result` or `error`), or what to do with the connection instead."""


class Connection:
    """The daemon's side of one client."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.settimeout(WAIT)
        self._socket = accepted
        self._reader = accepted.makefile("rb")

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def send_bytes(self, content: bytes) -> None:
        self._socket.sendall(content)

    def receive(self) -> Message | None:
        line = self._reader.readline()
        message: Message | None = json.loads(line) if line else None
        return message

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


class ScriptedDaemon:
    """Answers each method as `answers` says; remembers what it was asked."""

    def __init__(self, path: str, answers: Mapping[str, Answer]) -> None:
        self.path = path
        self.seen: list[Message] = []
        self.arrived = threading.Event()
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        self._threads = [threading.Thread(target=self._serve, daemon=True)]

    def start(self) -> None:
        self._threads[0].start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT)
        self._listener.close()

    def asked(self, method: str) -> Any:
        """The parameters of the only request for `method`."""
        found = [message["params"] for message in self.seen if message["method"] == method]
        assert len(found) == 1, self.seen
        return found[0]

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._talk, args=[Connection(accepted)], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _talk(self, connection: Connection) -> None:
        try:
            while (message := connection.receive()) is not None:
                self.seen.append(message)
                self.arrived.set()
                self._answer(connection, message)
        except (OSError, ValueError):
            pass  # the client went away, or the script closed the connection
        finally:
            connection.close()

    def _answer(self, connection: Connection, message: Message) -> None:
        answer = self._answers.get(message["method"])
        if callable(answer):
            answer(connection, message)
        elif answer is not None:
            connection.send({"id": message["id"], **answer})


@contextmanager
def scripted_daemon(directory: Path, answers: Mapping[str, Answer]) -> Iterator[ScriptedDaemon]:
    daemon = ScriptedDaemon(str(directory / "control.sock"), answers)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


def lonely_home(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a home with nothing in it, where no daemon runs; returns where our configuration is."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    home, config = directory / "home", directory / "ours" / "mcp.json"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MCP_CONFIG_PATH", str(config))
    monkeypatch.setenv("MCP_SUPERVISOR_SOCKET", str(directory / "none.sock"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    home.mkdir()
    monkeypatch.chdir(home)
    return config


def servers(path: Path) -> Any:
    """The servers of a configuration file without comments."""
    return json.loads(path.read_text())["mcpServers"]


def hang_up(connection: Connection, message: Message) -> None:
    connection.close()


def say_nothing(connection: Connection, message: Message) -> None:
    """The client's patience ends the wait."""
