"""A well-behaved server beside the bad one, called all the while, to see whether anybody else suffers.

Owns the program that calls it (`python -m supervisor.selftest.innocent SOCKET TOOL PID…`) and the times that
it takes. It is a process of its own, so that nothing which the case does in ours delays it. A busy machine is
nobody's fault here: the time for which the daemon, the server or the caller stood in the kernel's queue for a
processor is taken off, and where they stood there as long as they ran, everything may take twice as long, the
starts of processes above all, for which the daemon has to wait.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.errors import SupervisorError
from supervisor.selftest.lab import PATIENCE, TooLate
from supervisor.selftest.promises import Complaint, Promise
from supervisor.surfaces.client import SyncClient

PAUSE = 0.002
"""Seconds between two calls."""
PROMPT = 0.1
"""Seconds within which an innocent server answers, whatever happens to others."""
OURSELVES = "self"
NANOSECONDS = 1e9
STDIN, STDOUT = 0, 1


@dataclass(slots=True)
class Watch:
    """What became of the calls during a case."""

    times: list[float] = field(default_factory=list[float])
    """Seconds that each took, without those in the queue for a processor."""
    failure: str | None = None
    slowdown: float = 1.0
    """How many times as long as by itself everything took on this machine meanwhile."""


class Innocent:
    """The program that calls a well-behaved server, as whoever started it sees it."""

    def __init__(self, socket: Path, *, tool: str, involved: Sequence[int]) -> None:
        words = [str(socket), tool, *map(str, involved)]
        self._caller = subprocess.Popen(
            [sys.executable, "-m", __name__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._hear()

    def close(self) -> None:
        """End it; it ends with its input, and is killed if not."""
        self._caller.kill()
        self._caller.communicate()

    @contextmanager
    def watched(self) -> Generator[Watch]:
        """Have it call all the time; what became of that is known on the way out."""
        watch = Watch()
        self._tell()
        try:
            yield watch
        finally:
            self._tell()
            watch.times, watch.failure, watch.slowdown = self._hear()

    def _tell(self) -> None:
        """Have it begin, or end."""
        assert self._caller.stdin is not None
        self._caller.stdin.write(b"\n")

    def _hear(self) -> Any:
        assert self._caller.stdout is not None
        if not select.select([self._caller.stdout], [], [], PATIENCE)[0]:
            raise TooLate("the caller of the innocent server says nothing")
        line = self._caller.stdout.readline()
        if not line:
            raise TooLate("the caller of the innocent server has ended")
        return json.loads(line)


def harm(watch: Watch) -> list[Complaint]:
    """What an innocent server's callers suffered, who should be answered promptly."""
    if watch.failure is not None:
        return [Complaint(Promise.NO_HARM, f"the innocent server did not answer: {watch.failure}")]
    bound = PROMPT * watch.slowdown
    slow = [took for took in watch.times if took > bound]
    if not slow:
        return []
    sentence = (
        f"{len(slow)} of {len(watch.times)} answers of the innocent server took longer than {bound:.2g} s,"
        f" the slowest {max(slow):.3f} s, on a machine that is {watch.slowdown:.1f} times as slow as alone"
    )
    return [Complaint(Promise.NO_HARM, sentence, by_chance=True)]


# In the caller's process.


@dataclass(frozen=True, slots=True)
class Share:
    """What some processes had of the processors so far, in seconds."""

    ran: float
    waited: float

    def __sub__(self, before: "Share") -> "Share":
        return Share(self.ran - before.ran, self.waited - before.waited)

    @property
    def slowdown(self) -> float:
        return 1.0 + self.waited / self.ran if self.ran > 0 else 1.0


def share_of(accounts: Iterable[Path]) -> Share:
    """What they had together, by the kernel's accounts; nothing where it keeps none."""
    ran = waited = 0
    for account in accounts:
        with suppress(OSError, ValueError):
            figures = account.read_text().split()
            ran, waited = ran + int(figures[0]), waited + int(figures[1])
    return Share(ran / NANOSECONDS, waited / NANOSECONDS)


class Caller:
    """Calls the server from one connection, and takes the time."""

    def __init__(self, client: SyncClient, tool: str, involved: Sequence[str]) -> None:
        self._client, self._tool = client, tool
        self._accounts = [Path(f"/proc/{who}/schedstat") for who in (*involved, OURSELVES)]

    def call(self) -> float:
        before, began = share_of(self._accounts), time.monotonic()
        self._client.call(self._tool, {"text": "all is well"}, timeout=10)
        took = time.monotonic() - began
        return took - (share_of(self._accounts) - before).waited

    def watch(self) -> Watch:
        """Call until there is something to read."""
        watch, before = Watch(), share_of(self._accounts)
        try:
            while not select.select([STDIN], [], [], PAUSE)[0]:
                watch.times.append(self.call())
        except SupervisorError as error:
            watch.failure = str(error)
        watch.slowdown = (share_of(self._accounts) - before).slowdown
        return watch


def main(socket: str, tool: str, *involved: str) -> None:
    """Say that all is ready; from one line of input to the next, call; then say how it went."""
    with SyncClient(socket) as client:
        caller = Caller(client, tool, involved)
        _say(caller.call())
        while os.read(STDIN, 1):
            watch = caller.watch()
            if os.read(STDIN, 1):
                _say([watch.times, watch.failure, watch.slowdown])


def _say(what: object) -> None:
    os.write(STDOUT, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
