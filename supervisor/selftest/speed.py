"""How much longer a call takes through the daemon than through the pipes of the same server.

Both are measured in turns, with the same client code, so that what the machine does besides hits both.
"""

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from supervisor.selftest import hostile as hostile_server
from supervisor.selftest.case import GOOD, INNOCENTS
from supervisor.selftest.lab import PATIENCE, Lab
from supervisor.selftest.promises import Complaint, Promise

TURNS, CALLS = 20, 50
FAST_ENOUGH = 5.0
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


def measure(directory: Path) -> Speed:
    """Call the same tool both ways, in turns."""
    home = directory / "speed"
    home.mkdir()
    lab, direct = Lab(home), _Direct()
    try:
        lab.start(INNOCENTS)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(lab.socket))
            with connection.makefile("rb") as answers:
                return _compare(direct.call, lambda: _ask(connection.sendall, answers, f"{GOOD}_echo"))
    finally:
        direct.close()
        lab.end()
        lab.destroy()


def _compare(direct: Call, through: Call) -> Speed:
    for call in (direct, through):
        _times(call)  # the first ones find nothing warm
    slow, fast = list[float](), list[float]()
    for _ in range(TURNS):
        fast += _times(direct)
        slow += _times(through)
    return Speed(statistics.median(fast), statistics.median(slow))


def _times(call: Call) -> list[float]:
    found: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


def _ask(send: Callable[[bytes], Any], answers: IO[bytes], tool: str) -> None:
    params = {"name": tool, "arguments": {"text": "hello"}}
    send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n")
    answer = json.loads(answers.readline())
    assert answer["result"]["content"][0]["text"] == "hello"


class _Direct:
    """The server as a child of ours."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", hostile_server.__file__, "polite"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def call(self) -> None:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        _ask(requests.write, answers, "echo")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
