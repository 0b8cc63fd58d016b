"""Servers that nobody here wrote, owned by the daemon as a user would start it.

`tests/system/prepare` installs them; what it could not install is skipped with its reason.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from supervisor.errors import UNREACHABLE

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

INSTALLED = Path(__file__).parents[2] / ".tools"
COMMAND = Path(sys.executable).with_name("mcp-supervisor")
PATIENCE = 60.0
PROGRAMS = {"python": INSTALLED / "python/bin", "node": INSTALLED / "node/node_modules/.bin"}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealServer:
    """One server, and one call that proves it works; `{place}` and `{web}` are filled in."""

    name: str
    runtime: str
    call: tuple[str, ...]
    answer: str
    arguments: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """Why it cannot be tried here, if so."""
        note = INSTALLED / f"{self.runtime}.missing"
        if note.exists():
            return f"{self.name}: {note.read_text().strip()}"
        installed = (PROGRAMS[self.runtime] / f"mcp-server-{self.name}").exists()
        return None if installed else f"{self.name}: not installed; run tests/system/prepare"

    def entry(self, world: "World") -> Json:
        program = PROGRAMS[self.runtime] / f"mcp-server-{self.name}"
        environment = {"MEMORY_FILE_PATH": f"{world.place}/memory.jsonl"}
        return {"command": str(program), "args": world.fill(self.arguments), "env": environment}


SERVERS = (
    RealServer(
        name="time",
        runtime="python",
        call=("time_get_current_time", "timezone=Europe/Berlin"),
        answer='"timezone": "Europe/Berlin"',
    ),
    RealServer(
        name="git",
        runtime="python",
        arguments=("--repository", "{place}/repository"),
        call=("git_git_log", "repo_path={place}/repository"),
        answer="The first commit",
    ),
    RealServer(
        name="fetch",
        runtime="python",
        arguments=("--ignore-robots-txt", "--allow-private-ips"),
        call=("fetch_fetch", "url={web}/note.txt"),
        answer="Served on loopback",
    ),
    RealServer(
        name="everything",
        runtime="node",
        call=("everything_echo", "message=over and out"),
        answer="Echo: over and out",
    ),
    RealServer(
        name="filesystem",
        runtime="node",
        arguments=("{place}/files",),
        call=("filesystem_read_text_file", "path={place}/files/note.txt"),
        answer="Served on loopback",
    ),
    RealServer(name="memory", runtime="node", call=("memory_read_graph",), answer='"entities": []'),
)
PRESENT = tuple(server for server in SERVERS if not server.missing)
EACH = [
    pytest.param(
        server, id=server.name, marks=pytest.mark.skipif(bool(server.missing), reason=server.missing or "")
    )
    for server in SERVERS
]


@dataclass(frozen=True, slots=True)
class World:
    """What the servers are pointed at: a repository, a directory, a web server on loopback."""

    place: Path
    web: str

    def fill(self, words: tuple[str, ...]) -> list[str]:
        return [word.format(place=self.place, web=self.web) for word in words]


class Daemon:
    """`mcp-supervisor run`, and the commands a user types beside it."""

    def __init__(self, config: Path) -> None:
        self.socket = config.with_name("control.sock")
        self.log = config.with_name("daemon.log")
        with self.log.open("wb") as log:
            command: list[str | Path] = [COMMAND, "run", "--config", config, "--socket", self.socket]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [COMMAND, *words, "--socket", self.socket]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def states(self) -> dict[str, str]:
        """The one word for each server; empty while nobody listens yet."""
        status = self.type("status", "--json")
        if status.returncode == UNREACHABLE:
            return {}
        return {server["name"]: server["state"] for server in json.loads(status.stdout)["servers"]}

    def last_words(self) -> str:
        return self.log.read_text()[-4000:]

    def settle(self) -> dict[str, str]:
        """The states once every server has come up or was given up; each round waits for a command to end."""
        deadline = time.monotonic() + PATIENCE
        while not (states := self.states()) or not {*states.values()} <= {"connected", "unavailable"}:
            assert self.process.poll() is None, self.last_words()
            assert time.monotonic() < deadline, f"{states}\n{self.last_words()}"
        return states

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End it whatever happened; SIGKILL is the last resort."""
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self.process.kill()
            self.process.wait(PATIENCE)


@contextmanager
def running(directory: Path, world: World) -> Iterator[Daemon]:
    """A daemon that owns every server present."""
    config = directory / "mcp.json"
    entries = {server.name: server.entry(world) for server in PRESENT}
    config.write_text(json.dumps({"mcpServers": entries, "supervisor": {"policy": "open", "http": False}}))
    daemon = Daemon(config)
    try:
        yield daemon
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    place = tmp_path_factory.mktemp("world")
    files, repository = place / "files", place / "repository"
    files.mkdir()
    repository.mkdir()
    (files / "note.txt").write_text("Served on loopback\n")
    author = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    for words in (
        ("init", "--quiet"),
        (*author, "commit", "--quiet", "--allow-empty", "-m", "The first commit"),
    ):
        subprocess.run(["git", "-C", repository, *words], check=True, timeout=PATIENCE)
    handler = partial(QuietHandler, directory=str(files))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        Thread(target=web.serve_forever, daemon=True).start()
        yield World(place, f"http://127.0.0.1:{web.server_port}")
        web.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("daemon"), world) as daemon:
        daemon.settle()
        yield daemon


@pytest.mark.parametrize("server", EACH)
def test_it_is_connected(daemon: Daemon, server: RealServer) -> None:
    assert daemon.states()[server.name] == "connected", daemon.last_words()


@pytest.mark.parametrize("server", EACH)
def test_its_tools_are_listed_in_full_as_the_server_itself_lists_them(
    daemon: Daemon, world: World, server: RealServer
) -> None:
    listed = daemon.type("tools", "--server", server.name, "--json")

    ours = {tool["name"]: bare(tool) for tool in json.loads(listed.stdout)["tools"]}
    assert ours == {f"{server.name}_{tool['name']}": bare(tool) for tool in own_tools(server.entry(world))}


@pytest.mark.parametrize("server", EACH)
def test_its_tool_answers_a_call_typed_at_the_command_line(
    daemon: Daemon, world: World, server: RealServer
) -> None:
    called = daemon.type("call", *world.fill(server.call))

    assert called.returncode == 0, called.stderr
    assert server.answer in called.stdout


@pytest.mark.skipif(not PRESENT, reason="no real server is installed; run tests/system/prepare")
def test_sigterm_ends_the_daemon_well_and_leaves_no_descendant(tmp_path: Path, world: World) -> None:
    with running(tmp_path, world) as daemon:
        assert {*daemon.settle().values()} == {"connected"}, daemon.last_words()
        family = descendants(daemon.process.pid)
        assert len(family) >= len(PRESENT)

        assert daemon.stop() == 0, daemon.last_words()

    assert not family & {process for process, _ in living()}
    assert "ERROR" not in daemon.log.read_text(), daemon.last_words()


def bare(tool: Json) -> Json:
    """A definition without what the daemon adds or renames."""
    return {key: value for key, value in tool.items() if key not in {"name", "_meta"}}


def own_tools(entry: Json) -> list[Json]:
    """What a server lists to a client that holds its pipes itself."""
    child = subprocess.Popen(
        [entry["command"], *entry["args"]],
        env=os.environ | entry["env"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    with child:
        try:
            identity = {"name": "system-test", "version": "1"}
            ask(child, 1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=identity)
            tell(child, {"method": "notifications/initialized"})
            listing = ask(child, 2, "tools/list")
        finally:
            child.kill()
    assert "nextCursor" not in listing, "the list has more pages; read them all here"
    tools: list[Json] = listing["tools"]
    return tools


def tell(child: subprocess.Popen[bytes], message: Json) -> None:
    assert child.stdin is not None
    child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def ask(child: subprocess.Popen[bytes], number: int, method: str, **params: Any) -> Json:
    """The result of one request; what else the server says meanwhile is passed over."""
    assert child.stdout is not None
    tell(child, {"id": number, "method": method, "params": params})
    unread = b""
    while True:
        readable, _, _ = select.select([child.stdout], [], [], PATIENCE)
        assert readable, f"{method} was not answered"
        *lines, unread = (unread + os.read(child.stdout.fileno(), 1 << 16)).split(b"\n")
        for message in map(json.loads, lines):
            if message.get("id") == number:
                result: Json = message["result"]
                return result


Process = tuple[int, str]
"""A pid and its start time: together they name one process for ever."""


def living() -> Iterator[tuple[Process, int]]:
    """Every process that is no zombie, with its parent's pid."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = text.rpartition(")")[2].split()
        if fields[0] != "Z":
            yield (int(stat.parent.name), fields[19]), int(fields[1])


def descendants(pid: int) -> set[Process]:
    family: set[Process] = set()
    processes, pids = list(living()), {pid}
    while found := {process for process, parent in processes if parent in pids} - family:
        family |= found
        pids = {process[0] for process in found}
    return family
