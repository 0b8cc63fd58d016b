"""HTTP servers of a soak: processes that are not the daemon's, killed and started again at the same port."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tests.e2e.support import FAKE, PATIENCE, Json

PROGRAM = FAKE.with_name("fake_http.py")
TEMPERS: tuple[tuple[str, ...], ...] = (
    ("--era", "legacy"),
    ("--era", "modern"),
    ("--answers", "json"),
    ("--stateless",),
)


class Remote:
    """One HTTP server."""

    def __init__(self, name: str, options: Sequence[str]) -> None:
        self.name, self._options = name, options
        self._port = "0"
        self._process = self._started()

    def entry(self, **keys: object) -> Json:
        """How a configuration names it."""
        return {"type": "http", "url": f"http://127.0.0.1:{self._port}/mcp", **keys}

    def replace(self) -> None:
        """Kill it, and have another one listen where it did."""
        self.end()
        self._process = self._started()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _started(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-I", "-S", str(PROGRAM), "--port", self._port, *self._options]
        # It complains of connections that were cut, which is what happens here.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        self._port = process.stdout.readline().strip()  # it says so once it listens
        assert self._port, f"{self.name} ended with {process.wait(PATIENCE)} instead of listening"
        return process


@contextmanager
def listening(number: int) -> Iterator[list[Remote]]:
    """So many HTTP servers; none outlives the block."""
    with ExitStack() as ends:
        remotes: list[Remote] = []
        for index in range(number):
            remotes.append(Remote(f"h{index}", TEMPERS[index % len(TEMPERS)]))
            ends.callback(remotes[-1].end)
        yield remotes
