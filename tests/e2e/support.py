"""A real daemon, started as a user starts it, and a plain client: sockets and lines, nothing of ours.

Every wait is bounded. A daemon is always ended with SIGTERM, must exit with 0, and must leave nothing
alive: neither below itself nor anywhere with its token.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from supervisor.runtime.orphans import instance_of
from supervisor.runtime.proctable import descendants, entry
from tests.files import save, whole_lines

PROGRAM = Path(sys.executable).with_name("mcp-supervisor")
FAKE = Path(__file__).parents[1] / "fake_servers" / "fake.py"
PATIENCE = 20.0
"""Seconds after which something that must happen has not."""
TOKEN = b"MCP_SUPERVISOR_RUN="
PAGES = "metrics and health at "

Loop = Literal["uvloop", "asyncio"]
Json = dict[str, Any]
Value = TypeVar("Value")


def until(look: Callable[[], Value], *, seconds: float = PATIENCE) -> Value:
    """What `look` returns as soon as it is true; it is asked again and again, and not for ever."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, f"still {value!r} after {seconds} s"
        time.sleep(0.002)
    return value


def fake(*options: object, **keys: Any) -> Json:
    """A config entry that starts the fake server."""
    arguments = ["-I", "-S", str(FAKE), *map(str, options)]
    return {"command": sys.executable, "args": arguments, **keys}


def alive(pid: int) -> bool:
    found = entry(pid)
    return found is not None and not found.zombie


class Client:
    """One connection to the control socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        # Python's own timeout would make the socket non-blocking, and a full backlog an error.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(PATIENCE), 0))
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.socket.settimeout(PATIENCE)
        self._reader = self.socket.makefile("rb", buffering=1 << 20)
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self.socket.close()

    def write(self, content: bytes) -> None:
        self.socket.sendall(content)

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def line(self) -> bytes:
        """The next line; empty when the daemon has hung up."""
        return self._reader.readline()

    def receive(self) -> Any:
        line = self.line()
        assert line, "the daemon hung up"
        return json.loads(line)

    def ask(self, method: str, /, **params: Any) -> int:
        """Send a request and return its id."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, /, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, method: str, /, **params: Any) -> Json:
        """The answer to a request, which must be the next message."""
        number = self.ask(method, **params)
        answer: Json = self.receive()
        assert answer["id"] == number
        return answer

    def result(self, method: str, /, **params: Any) -> Json:
        answer = self.reply(method, **params)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def error(self, method: str, /, **params: Any) -> Json:
        answer = self.reply(method, **params)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    def text(self, tool: str, /, **arguments: Any) -> str:
        """What a tool says."""
        text: str = self.result("tools/call", name=tool, arguments=arguments)["content"][0]["text"]
        return text

    def refusal(self, tool: str, /, **arguments: Any) -> Json:
        """The error that a call ends in."""
        return self.error("tools/call", name=tool, arguments=arguments)

    def server(self, name: str) -> Json:
        return self.result("servers/get", server=name)

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.result("tools/list")["tools"]]

    def settled(self) -> bool:
        """Whether every server has come up or failed for good, or is not wanted."""
        states = [server["state"] for server in self.result("servers/list")["servers"]]
        return all(state in ("connected", "unavailable", "disabled", "idle") for state in states)


@dataclass(slots=True)
class Daemon:
    """One daemon process, its socket and its log."""

    process: "subprocess.Popen[bytes]"
    socket: Path
    log: Path
    clients: list[Client] = field(default_factory=list)

    def connect(self) -> Client:
        self.clients.append(Client(self.socket))
        return self.clients[-1]

    @property
    def client(self) -> Client:
        """The connection for tests that need no more than one."""
        return self.clients[0] if self.clients else self.connect()

    def logged(self, level: str | None = None) -> list[Json]:
        """The whole lines of the log so far."""
        lines = [json.loads(line) for line in whole_lines(self.log)]
        return [line for line in lines if level in (None, line["level"])]

    def said(self, level: str | None = None) -> list[str]:
        """The messages of the log so far."""
        return [line["message"] for line in self.logged(level)]

    @property
    def port(self) -> int:
        """Where its pages are, by its log; it chose the port itself, if it was given 0."""
        (address,) = until(lambda: [line for line in self.said() if line.startswith(PAGES)])
        return int(address.rpartition(":")[2])

    def pids(self) -> set[int]:
        """Everything alive that this daemon, or another one on its socket, has started."""
        return {found.pid for found in descendants(self.process.pid)} | self.tokened()

    def tokened(self) -> set[int]:
        """The living processes whose environment names this control socket."""
        wanted = TOKEN + instance_of(str(self.socket)).encode() + b":"
        return {pid for pid in living() if any(item.startswith(wanted) for item in environment(pid))}

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit status, which must come within so many seconds."""
        return self.process.wait(seconds)

    def end(self) -> None:
        """End it as systemd would, unless it has ended."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            assert self.wait() == 0, self.log.read_text(encoding="utf-8")

    def destroy(self) -> None:
        """Let go of everything, and end what a failed test has left."""
        for client in self.clients:
            client.close()
        for pid in (self.process.pid, *self.pids()):
            if pid != self.process.pid or self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


def living() -> Iterator[int]:
    yield from filter(alive, (int(directory.name) for directory in Path("/proc").glob("[0-9]*")))


def environment(pid: int) -> list[bytes]:
    """The variables that a process was started with."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


class Launcher:
    """Starts daemons and commands in one directory, with an environment of their own."""

    def __init__(self, directory: Path, *, loop: Loop = "uvloop") -> None:
        self.directory, self._loop = directory, loop
        self.socket = directory / "control.sock"
        self.config = directory / "mcp.json"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(directory / "state"),
            **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
        }
        self.started: list[Daemon] = []

    def configure(self, servers: Mapping[str, Json], **settings: Any) -> None:
        # Many daemons run at once here, and only one of them could have the usual port.
        settings = {"http": False, **settings}
        save(self.config, json.dumps({"mcpServers": servers, "supervisor": settings}))

    def spawn(self, *options: str, umask: int = -1, before: Sequence[str] = ()) -> Daemon:
        """Start a daemon on the configuration as it is now, by these words before it; it may refuse to."""
        log = self.directory / f"daemon-{len(self.started)}.log"
        words = ["run", "--config", str(self.config), "--socket", str(self.socket), "--loop", self._loop]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*before, PROGRAM, *words, "--log-format", "json", *options],
                env=self.environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                umask=umask,
            )
        self.started.append(Daemon(process, self.socket, log))
        return self.started[-1]

    def reload(self, daemon: Daemon, servers: Mapping[str, Json], **settings: Any) -> Json:
        """Configure these servers, and what is told of the reload; it is over, whoever asked for it first.

        The daemon watches its file: what it answers to us may be that all has been done already.
        """
        with Client(daemon.socket) as listener:
            listener.result("events/subscribe", kinds=["reload"])
            self.configure(servers, **settings)
            daemon.client.result("supervisor/reload")
            told: Json = listener.receive()["params"]
            return told

    def start(self, servers: Mapping[str, Json], *options: str, **settings: Any) -> Daemon:
        """A daemon whose socket answers and whose servers have all come up or failed."""
        self.configure(servers, **settings)
        daemon = self.spawn(*options)
        until(lambda: answers(daemon))
        until(daemon.client.settled)
        return daemon

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Type `mcp-supervisor` with these words, for the daemon of this directory."""
        environment = {**self.environment, "MCP_SUPERVISOR_SOCKET": str(self.socket)}
        return subprocess.run(
            [PROGRAM, *words], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )


def answers(daemon: Daemon) -> bool:
    """Whether the socket answers; fails at once when the daemon has ended instead."""
    assert daemon.process.poll() is None, daemon.log.read_text(encoding="utf-8")
    with suppress(FileNotFoundError, ConnectionRefusedError), Client(daemon.socket) as client:
        return client.result("supervisor/ping") == {}
    return False


@contextmanager
def launching(directory: Path, *, loop: Loop = "uvloop") -> Iterator[Launcher]:
    """Start daemons; each must end well, and none outlives the block."""
    launcher = Launcher(directory, loop=loop)
    try:
        yield launcher
        for daemon in launcher.started:
            daemon.end()
        assert not [daemon.pids() for daemon in launcher.started if daemon.pids()]
    finally:
        for daemon in launcher.started:
            daemon.destroy()
