"""What must be so after every case, whatever it was about.

The daemon lives, an innocent server answered all the while, nothing is left, and status, metrics, tool list
and kernel say the same. Owns the comparison of before and after, and changes nothing. No time is absolute: an
innocent server's answers are compared with its own answers before.
"""

import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from supervisor.errors import SupervisorError
from supervisor.runtime.proctable import entry
from supervisor.selftest.lab import Lab, Process, TooLate, until
from supervisor.selftest.promises import Complaint, Promise
from supervisor.surfaces.client import SyncClient

CALLS_BEFORE = 100
PAUSE = 0.002
"""Seconds between two calls of the innocent server."""
SLOWER = 10.0
"""How many times slower than before the slowest in a hundred answers may be ..."""
UNREMARKABLE = 0.5
"""... unless it still took no longer than so many seconds: a busy machine does that by itself."""
SETTLED_AFTER = 10.0
"""Seconds that things may take to come to rest."""
FEW = 50
"""Answers below which nothing is said about one in a hundred."""


@dataclass(slots=True)
class Watch:
    """What became of the innocent server's calls during a case."""

    times: list[float] = field(default_factory=list[float])
    failure: str | None = None


class Innocent:
    """Calls a well-behaved server from a connection of its own, and takes the time."""

    def __init__(self, client: SyncClient, *, tool: str) -> None:
        self._client, self._tool = client, tool

    def close(self) -> None:
        self._client.close()

    def times(self, count: int) -> list[float]:
        return [self._call() for _ in range(count)]

    def _call(self) -> float:
        time.sleep(PAUSE)
        began = time.monotonic()
        self._client.call(self._tool, {"text": "all is well"}, timeout=10)
        return time.monotonic() - began

    @contextmanager
    def watched(self) -> Generator[Watch]:
        """Call it all the time, in a thread."""
        watch, over = Watch(), threading.Event()

        def work() -> None:
            try:
                while not over.is_set():
                    watch.times.append(self._call())
            except SupervisorError as error:
                watch.failure = str(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield watch
        finally:
            over.set()
            thread.join()


@dataclass(frozen=True, slots=True)
class Baseline:
    """The daemon before a case."""

    slowest: float
    """Seconds of the slowest answer in a hundred."""
    descriptors: list[str]
    processes: set[Process]


def baseline(lab: Lab, innocent: Innocent) -> Baseline:
    return Baseline(slowest_of(innocent.times(CALLS_BEFORE)), lab.descriptors(), lab.processes())


def slowest_of(times: list[float]) -> float:
    """The time that one answer in a hundred exceeds."""
    return sorted(times)[int(len(times) * 0.99) - 1]


def aftermath(lab: Lab, before: Baseline, watch: Watch) -> list[Complaint]:
    """What is not as it was before."""
    if lab.exit_status() is not None:
        return [Complaint(Promise.NO_HARM, f"the daemon has ended with status {lab.exit_status()}")]
    return [*harm(before, watch), *leftovers(lab, before.processes), *_leaks(lab, before)]


def harm(before: Baseline, watch: Watch) -> list[Complaint]:
    if watch.failure is not None:
        return [Complaint(Promise.NO_HARM, f"the innocent server did not answer: {watch.failure}")]
    if len(watch.times) < FEW or slowest_of(watch.times) <= max(SLOWER * before.slowest, UNREMARKABLE):
        return []
    took, usual = slowest_of(watch.times), before.slowest
    sentence = (
        f"an answer in a hundred of the innocent server took {took:.3f} s, {took / usual:.0f} times as long"
    )
    return [Complaint(Promise.NO_HARM, sentence)]


def leftovers(lab: Lab, before: set[Process] | None = None) -> list[Complaint]:
    """The processes that should be gone, and the dead ones that nobody has reaped."""
    innocent: set[Process] = before or set()
    try:
        until(lambda: lab.processes() == innocent and not lab.zombies(), seconds=SETTLED_AFTER)
    except TooLate:
        left, lost = lab.processes() - innocent, innocent - lab.processes()
        sentence = f"{_pids(left)} left, {_pids(lost)} lost, {lab.zombies()} zombies"
        return [Complaint(Promise.NOTHING_LEFT, sentence)]
    return []


def _pids(processes: set[Process]) -> str:
    return f"{len(processes)} processes {sorted(pid for pid, _ in processes)}" if processes else "none"


def _leaks(lab: Lab, before: Baseline) -> list[Complaint]:
    try:
        until(lambda: lab.descriptors() == before.descriptors, seconds=SETTLED_AFTER)
    except TooLate:
        now, then = Counter(lab.descriptors()), Counter(before.descriptors)
        opened, closed = sorted((now - then).elements()), sorted((then - now).elements())
        sentence = f"the daemon has opened {opened} and closed {closed}"
        return [Complaint(Promise.NO_HARM, sentence)]
    return []


def contradictions(lab: Lab) -> list[Complaint]:
    """What status, metrics, tool list and kernel do not agree on; they get a moment, as things go on."""
    try:
        until(lambda: not _contradictions(lab), seconds=SETTLED_AFTER)
    except TooLate:
        return [Complaint(Promise.TRUTH, sentence) for sentence in _contradictions(lab)]
    return []


def _contradictions(lab: Lab) -> list[str]:
    samples, found = lab.metrics(), list[str]()
    offered = [tool["_meta"]["server"] for tool in lab.client.tools()]
    for server in lab.client.servers():
        name, state, pid = server["name"], server["state"], server["pid"]
        connected = state == "connected"
        if (samples[f'mcp_supervisor_server_up{{server="{name}"}}'] == 1) != connected:
            found.append(f"metrics and status disagree about {name}, which is {state}")
        if samples[f'mcp_supervisor_server_state{{server="{name}",state="{state}"}}'] != 1:
            found.append(f"metrics do not know that {name} is {state}")
        if connected != (name in offered):
            found.append(f"{name} is {state}, and {offered.count(name)} of its tools are offered")
        if pid is None and connected and server["transport"] == "stdio":
            found.append(f"{name} is connected and has no process")
        if pid is not None and not _child(pid, lab.pid):
            found.append(f"the process {pid} of {name} is no living child of the daemon")
    return found


def _child(pid: int, parent: int) -> bool:
    found = entry(pid)
    return found is not None and not found.zombie and found.parent == parent
