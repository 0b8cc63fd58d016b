"""The processes of a run: workers, daemons, and what `/proc` says of them.

Everything is started here and ended here, by its pid; nothing is waited for without a bound.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from bench.contender import Fleet

ROOT = Path(__file__).parents[1]
TOOLS_PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"
DAEMON = ROOT / ".venv" / "bin" / "mcp-supervisor"
PATIENCE = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Stuck(Exception):
    """Something did not answer, or did not end, in time."""


class Worker:
    """One contender's process."""

    def __init__(self, name: str, fleet: Fleet) -> None:
        self.name = name
        python = str(TOOLS_PYTHON) if name == "sdk" else sys.executable
        self._process = subprocess.Popen(
            [python, "-m", "bench.worker", name, json.dumps(asdict(fleet))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._received = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, command: str, /, **options: Any) -> None:
        """Give a command without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, options]).encode() + b"\n")

    def answer(self) -> Any:
        """What the last command came to.

        Raises:
            Stuck: nothing within `PATIENCE` seconds, the worker ended, or what it did failed.
        """
        assert self._process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._received:
            ready, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
            chunk = self._process.stdout.read(1 << 20) if ready else b""
            if not chunk:
                raise Stuck(
                    f"cannot go on: the worker of {self.name} ended, or gave no answer for {PATIENCE:.0f} s"
                )
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        came_to = json.loads(line)
        if "failure" in came_to:
            raise Stuck(f"cannot go on with {self.name}: {came_to['failure']}")
        return came_to["answer"]

    def ask(self, command: str, /, **options: Any) -> Any:
        self.tell(command, **options)
        return self.answer()

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it and wait; its servers end with their pipes."""
        self._process.kill()
        with self._process:  # closes the pipes and waits
            pass


class Daemon:
    """One daemon, started as a user starts it."""

    def __init__(self, program: Path, fleet: Fleet, directory: Path) -> None:
        self._directory = directory
        config = directory / "mcp.json"
        command, *arguments = fleet.command
        entry = {"command": command, "args": arguments, "stopGrace": fleet.stop_grace}
        servers = {f"s{number}": entry for number in range(fleet.servers)}
        # Several daemons run side by side, and there is one port for metrics.
        config.write_text(json.dumps({"mcpServers": servers, "supervisor": {"http": False}}))
        config.chmod(0o600)
        with (directory / "daemon.log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "run", "--config", config, "--socket", fleet.socket],
                cwd=directory,
                env={**os.environ, "XDG_STATE_HOME": str(directory), "XDG_RUNTIME_DIR": str(directory)},
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit status, when it has ended."""
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Have it stop everything; one that does not is killed, and that is an error.

        Raises:
            Stuck: it had to be killed.
        """
        if failure is not None:
            print("the daemon's last words:", *self._last_words(), sep="\n  ", file=sys.stderr)
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            words = "; ".join(self._last_words())
            raise Stuck(f"cannot end the daemon with SIGTERM; its last words: {words}") from None

    def _last_words(self) -> list[str]:
        return (self._directory / "daemon.log").read_text().splitlines()[-10:]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory of a process, its children aside."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def alive(pid: int) -> bool:
    """Whether that process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextmanager
def ended_at_last(pids: list[int]) -> Iterator[None]:
    """Kill what is left of these servers on the way out."""
    try:
        yield
    finally:
        for pid in pids:
            signal_if_alive(pid, signal.SIGKILL)


def signal_if_alive(pid: int, number: signal.Signals) -> None:
    assert pid > 1
    if alive(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
