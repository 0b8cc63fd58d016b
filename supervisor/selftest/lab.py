"""A daemon of its own in a directory of its own, started as a user starts it, and what the kernel says of it.

Owns that daemon: however the experiment ends, neither it nor anything that it started is left. Every wait is
bounded. It talks to no other daemon and reads no configuration of the user's.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from supervisor.errors import DaemonUnreachable, SupervisorError
from supervisor.runtime.orphans import TOKEN_NAME, instance_of
from supervisor.runtime.proctable import descendants, entry, environment_value, everything
from supervisor.selftest import hostile as hostile_server
from supervisor.surfaces.client import SyncClient

PATIENCE = 15.0
"""Seconds after which something that must happen has not."""
SETTINGS = {
    "http": {"port": 0},
    "maxLineBytes": 1 << 20,
    "defaults": {"startTimeout": 10, "callTimeout": 10, "stopGrace": 0.5},
}
PAGE = "metrics and health at "
OWN = "NOBODYS_BUT_THE_DAEMONS"
"""A variable of the daemon, with a name that no list of forbidden ones would have."""
INHERITED = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")

Entry = Mapping[str, Any]
Process = tuple[int, int]
"""Pid and start time: one process, and no other."""
Value = TypeVar("Value")


class TooLate(Exception):
    """Something that must happen has not."""


def until(look: Callable[[], Value], *, seconds: float = PATIENCE) -> Value:
    """What `look` returns as soon as it is true.

    Raises:
        TooLate: it is still not.
    """
    deadline = time.monotonic() + seconds
    while not (value := look()):
        if time.monotonic() > deadline:
            raise TooLate(f"still {value!r} after {seconds:g} s")
        time.sleep(0.004)
    return value


def hostile(*manners: str, **keys: Any) -> Entry:
    """The config entry of a server with these manners."""
    return {
        "command": sys.executable,
        "args": ["-I", "-S", hostile_server.__file__, *manners],
        **keys,
    }


class Lab:
    """One daemon at a time, on one socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "control.sock"
        self.config = directory / "mcp.json"
        self.log = directory / "daemon.log"
        self.settings: Mapping[str, Any] = SETTINGS
        self.environment: dict[str, str] = {}
        """What the next daemon has of variables besides."""
        self._journal = directory / hostile_server.JOURNAL
        self._daemon: subprocess.Popen[bytes] | None = None
        self._client: SyncClient | None = None
        self._page: str | None = None

    # The daemon's life.

    def start(self, servers: Mapping[str, Entry]) -> None:
        """A daemon whose socket answers and whose servers have come up or failed."""
        self.spawn(servers)
        self.connect()
        until(self.settled)

    def spawn(self, servers: Mapping[str, Entry]) -> None:
        """Start a daemon, and wait for nothing."""
        self.write(servers)
        self._page = None
        words = ["run", "--config", str(self.config), "--socket", str(self.socket), "--log-format", "json"]
        with self.log.open("ab") as stream:
            self._daemon = subprocess.Popen(
                [*_dying_with_us(), sys.executable, "-m", "supervisor", *words],
                env=self._environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
        return {
            **kept,
            **measured,
            "HOME": str(self.directory),
            "XDG_STATE_HOME": str(self.directory),
            OWN: "a secret",
            **self.environment,
        }

    def connect(self) -> SyncClient:
        """Let go of the connection, if there is one, and make another as soon as the daemon answers."""
        self.disconnect()
        until(self._reached)
        return self.client

    def _reached(self) -> bool:
        if self.exit_status() is not None:
            raise TooLate(f"the daemon has ended with status {self.exit_status()}, see {self.log}")
        with suppress(DaemonUnreachable):
            self._client = SyncClient(str(self.socket))
            return True
        return False

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def signal(self, number: signal.Signals) -> None:
        """Signal the daemon."""
        self._process.send_signal(number)

    def exit_status(self) -> int | None:
        """What the daemon ended with; None while it runs."""
        return self._process.poll()

    def end(self) -> int:
        """End the daemon as systemd would, unless it has ended; returns its exit status.

        Raises:
            TooLate: it does not end.
        """
        self.disconnect()
        if self.exit_status() is None:
            self.signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise TooLate(f"the daemon still runs {PATIENCE:g} s after SIGTERM") from None

    def destroy(self) -> None:
        """Leave nothing, whatever has happened."""
        self.disconnect()
        if self._daemon is None:
            return
        left = self.processes()
        if self.exit_status() is None:
            self._daemon.kill()
        self._daemon.wait(PATIENCE)
        for pid, started in left | self.processes():
            found = entry(pid)
            if pid > 1 and found is not None and found.started == started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # What it is asked.

    @property
    def client(self) -> SyncClient:
        assert self._client is not None, "nobody is connected"
        return self._client

    def another_client(self) -> SyncClient:
        """A connection that its user closes."""
        return SyncClient(str(self.socket))

    def settled(self) -> bool:
        """Whether every server has come up or failed, or is not wanted."""
        return all(server["state"] not in ("stopped", "connecting") for server in self.client.servers())

    def write(self, servers: Mapping[str, Entry]) -> None:
        """Put a configuration in place, as a careful editor would."""
        unfinished = self.config.with_suffix(".new")
        document = {"mcpServers": servers, "supervisor": self.settings}
        unfinished.write_text(json.dumps(document), encoding="utf-8")
        unfinished.rename(self.config)

    def reload(self, servers: Mapping[str, Entry]) -> None:
        """Have these servers, and no others; answers when it is so."""
        self.write(servers)
        self.client.request("supervisor/reload")

    def metrics(self) -> dict[str, float]:
        """Every sample of the metrics page, by its name and labels as they are written."""
        from urllib.request import urlopen

        # The address is the daemon's own, read from its log.
        with urlopen(f"{self.page}/metrics", timeout=PATIENCE) as page:  # noqa: S310
            lines: list[str] = page.read().decode().splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
        }

    @property
    def page(self) -> str:
        """The address of the daemon's pages; where its log cannot be read, their port must be set."""
        if port := self.settings["http"]["port"]:
            return f"http://127.0.0.1:{port}"
        if self._page is None:
            said: list[str] = [json.loads(line)["message"] for line in _whole_lines(self.log)]
            self._page = next(text for text in reversed(said) if text.startswith(PAGE)).removeprefix(PAGE)
        return self._page

    # What the kernel and the servers say.

    @property
    def _process(self) -> "subprocess.Popen[bytes]":
        assert self._daemon is not None, "no daemon was started"
        return self._daemon

    @property
    def pid(self) -> int:
        return self._process.pid

    def descriptors(self) -> list[str]:
        """What the daemon has open, in words of the kernel, without numbers that differ each time."""
        return sorted(filter(None, map(_opened, Path(f"/proc/{self.pid}/fd").iterdir())))

    def begin_peak(self) -> None:
        """Have `peak` speak of what comes from now on, if the kernel can do that; else of all there was."""
        with suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> int:
        """The most bytes of memory that the daemon held."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])

    def processes(self) -> set[Process]:
        """Everything alive that the daemon has started, wherever it is now."""
        below = {(found.pid, found.started) for found in descendants(self.pid)}
        return below | self._tokened() | self._noted()

    def _tokened(self) -> set[Process]:
        mine = f"{instance_of(str(self.socket))}:".encode()
        return {
            (found.pid, found.started)
            for found in everything()
            if not found.zombie
            and (environment_value(found.pid, TOKEN_NAME.encode()) or b"").startswith(mine)
        }

    def _noted(self) -> set[Process]:
        noted = [(line["pid"], line["started"]) for line in self.journal() if "pid" in line]
        return {
            (pid, started)
            for pid, started in noted
            if (found := entry(pid)) is not None and found.started == started and not found.zombie
        }

    def zombies(self) -> int:
        """How many dead children the daemon has not reaped."""
        return sum(1 for found in everything() if found.parent == self.pid and found.zombie)

    def journal(self) -> list[dict[str, Any]]:
        """What hostile servers have written down since the journal was begun."""
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in _whole_lines(self._journal)]
        return []

    def begin_journal(self) -> None:
        self._journal.unlink(missing_ok=True)


def _whole_lines(path: Path) -> list[bytes]:
    """The lines of a file so far, without one that is still being written."""
    written = path.read_bytes()
    return written[: written.rfind(b"\n") + 1].splitlines()


def _opened(descriptor: Path) -> str:
    try:
        target = str(descriptor.readlink())
    except OSError:
        return ""
    # libuv keeps a spare descriptor for the day there is none: first of one of these, then of the other.
    return "/dev/null" if target == "/" else target.partition(":[")[0]


def _dying_with_us() -> tuple[str, ...]:
    """What makes the daemon stop when this process is killed, where there is such a thing."""
    found = shutil.which("setpriv")
    return () if found is None else (found, "--pdeathsig", "TERM", "--")


def outcome_of(error: SupervisorError) -> str:
    """What an error says of the call that ended in it."""
    return str(error.data.get("outcome", "no outcome"))
