"""One process of a run, and what `/proc` says of any.

Everything is started here and ended here, by its pid; nothing is waited for without a bound.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
TOOLS_PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"
DAEMON = ROOT / ".venv" / "bin" / "mcp-supervisor"
PATIENCE = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Stuck(Exception):
    """Something did not answer, or did not end, in time."""


class Owned:
    """A process of ours: whoever leaves it ends it and waits for it."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)

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
        self._process.kill()
        with self._process:  # closes the pipes and waits
            pass


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
def on_one_processor() -> Iterator[None]:
    """Have all processes that are started meanwhile share one processor, for as long as they live."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


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
