"""How much longer a call takes through the daemon than through the pipes of the same server.

Both are measured in turns, with the same client code and the same buffer, so that what the machine does
besides hits both, and neither pays for a way of reading that the other does not have.
"""

import io
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.selftest import hostile as hostile_server
from supervisor.selftest.case import GOOD, INNOCENTS
from supervisor.selftest.lab import PATIENCE, Lab
from supervisor.selftest.promises import Complaint, Promise

TURNS, CALLS = 20, 50
FAST_ENOUGH = 3.0
"""Times as long; what was measured at leisure is in docs/performance.md."""

Call = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of the median call, directly and through the daemon."""

    direct: float
    through: float

    @property
    def ratio(self) -> float:
        return self.through / self.direct

    def complaints(self) -> tuple[Complaint, ...]:
        if self.ratio <= FAST_ENOUGH:
            return ()
        return (Complaint(Promise.SPEED, f"more than {FAST_ENOUGH:g} times as long"),)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Why there is no figure."""

    reason: str


@dataclass(frozen=True, slots=True)
class Way:
    """Where requests go, and where answers come from."""

    send: Callable[[bytes], Any]
    answers: io.BufferedReader
    tool: str

    def call(self) -> None:
        params = {"name": self.tool, "arguments": {"text": "hello"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self.send(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.answers.readline())
        assert answer["result"]["content"][0]["text"] == "hello"


def measure(directory: Path) -> Speed:
    """Call the same tool both ways, in turns."""
    home = directory / "speed"
    home.mkdir()
    lab = Lab(home)
    try:
        lab.start(INNOCENTS)
        with directly() as direct, through(lab.socket) as longer:
            found = compare(direct.call, longer.call)
        lab.end()
        return found
    finally:
        lab.destroy()


@contextmanager
def directly() -> Generator[Way]:
    """The server as a child of ours."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", hostile_server.__file__, "polite"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with open(process.stdout.fileno(), "rb", closefd=False) as answers:
            yield Way(process.stdin.write, answers, "echo")
    finally:
        process.kill()
        process.communicate()


@contextmanager
def through(path: Path) -> Generator[Way]:
    """The server of the daemon with this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        with connection.makefile("rb") as answers:
            yield Way(connection.sendall, answers, f"{GOOD}_echo")


def compare(direct: Call, longer: Call) -> Speed:
    """The medians of both, after a few for warmth."""
    for call in (direct, longer):
        _times(call)
    fast, slow = list[float](), list[float]()
    for _ in range(TURNS):
        fast += _times(direct)
        slow += _times(longer)
    return Speed(statistics.median(fast), statistics.median(slow))


def _times(call: Call) -> list[float]:
    found: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found
