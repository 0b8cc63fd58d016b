"""What must be so after every case, whatever it was about.

The daemon lives, nothing is left, and status, metrics, tool list and kernel say the same; that others were
served meanwhile is `innocent`'s to say. Owns the comparison of before and after, and changes nothing.
"""

from collections import Counter
from dataclasses import dataclass

from supervisor.runtime.proctable import entry
from supervisor.selftest.lab import Lab, Process, TooLate, until
from supervisor.selftest.promises import Complaint, Promise

SETTLED_AFTER = 10.0
"""Seconds that things may take to come to rest."""
LOOKS = 5
TASKS = "mcp_supervisor_tasks_running"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The daemon before a case."""

    descriptors: list[str]
    processes: set[Process]
    tasks: float


def baseline(lab: Lab) -> Baseline:
    """The daemon at rest, which is when several looks in a row see the same.

    Raises:
        TooLate: it does not come to rest.
    """
    looks: list[Baseline] = []

    def at_rest() -> bool:
        looks.append(Baseline(lab.descriptors(), lab.processes(), tasks(lab)))
        return len(looks) >= LOOKS and all(look == looks[-1] for look in looks[-LOOKS:])

    until(at_rest, seconds=SETTLED_AFTER)
    return looks[-1]


def tasks(lab: Lab) -> float:
    """How many tasks the daemon has; that it does not say is `contradictions`' to tell."""
    return lab.metrics().get(TASKS, 0.0)


def aftermath(lab: Lab, before: Baseline) -> list[Complaint]:
    """What is not as it was before."""
    if lab.exit_status() is not None:
        return [Complaint(Promise.NO_HARM, f"the daemon has ended with status {lab.exit_status()}")]
    return [*leftovers(lab, before.processes), *_leaks(lab, before), *_idle_tasks(lab, before)]


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


def _idle_tasks(lab: Lab, before: Baseline) -> list[Complaint]:
    try:
        until(lambda: tasks(lab) <= before.tasks, seconds=SETTLED_AFTER)
    except TooLate:
        sentence = f"the daemon has {tasks(lab):g} tasks, and had {before.tasks:g}"
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
    samples = lab.metrics()
    found = [] if TASKS in samples else [f"the metrics do not have {TASKS}"]
    offered = [tool["_meta"]["server"] for tool in lab.client.tools()]
    for server in lab.client.servers():
        name, state, pid = server["name"], server["state"], server["pid"]
        connected = state == "connected"
        if (samples.get(f'mcp_supervisor_server_up{{server="{name}"}}') == 1) != connected:
            found.append(f"metrics and status disagree about {name}, which is {state}")
        if samples.get(f'mcp_supervisor_server_state{{server="{name}",state="{state}"}}') != 1:
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
