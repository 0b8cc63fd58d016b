"""A worker as whoever tells it what to do sees it: a process that answers each command with a line."""

import json
import select
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

from bench.contender import Fleet
from bench.processes import PATIENCE, ROOT, TOOLS_PYTHON, Owned, Stuck


class Worker(Owned):
    """One contender's process; its servers end with their pipes."""

    def __init__(self, name: str, fleet: Fleet) -> None:
        self.name, self.fleet = name, fleet
        self._received = b""
        python = str(TOOLS_PYTHON) if name == "sdk" else sys.executable
        command = [python, "-m", "bench.worker", name, json.dumps(asdict(fleet))]
        super().__init__(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

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
