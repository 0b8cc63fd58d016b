"""What the kernel says about processes: parents, groups, start times, environments.

Reads `/proc` and nothing else; it signals nobody. A process is identified by its pid and its start time
together, as pids are used again.
"""

import os
import time
from collections.abc import Iterator

from msgspec import Struct

_TICKS = os.sysconf("SC_CLK_TCK")
_NANOSECONDS = 1_000_000_000


class Entry(Struct, frozen=True):
    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: int
    """In clock ticks since boot."""

    @property
    def zombie(self) -> bool:
        return self.state in "ZX"


def clock() -> int:
    """The present moment as `started` counts it: whatever starts from now on has no smaller one."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * _TICKS // _NANOSECONDS


def memory_kills(counters: str = "/proc/vmstat") -> int | None:
    """How many processes the kernel has killed for want of memory since boot; None where nobody can know."""
    try:
        with open(counters, "rb", buffering=0) as vmstat:  # noqa: PTH123 - as below
            lines = vmstat.read().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), None)


def entry(pid: int) -> Entry | None:
    """The process with that pid, or None when there is none."""
    try:
        # Not pathlib: this runs once per process of the machine whenever a group is counted.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # noqa: PTH123
            text = stat.read()
    except OSError:
        return None
    # The command name is in parentheses and may hold anything, parentheses included.
    fields = text[text.rindex(b")") + 2 :].split()
    return Entry(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def everything() -> Iterator[Entry]:
    """Every process that can be seen, in no order."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdigit() and (found := entry(int(name))) is not None:
            yield found


def lists_children() -> bool:
    """Whether this kernel tells whose children there are."""
    return os.access(f"/proc/{os.getpid()}/task/{os.getpid()}/children", os.R_OK)


def children_of_the_main_thread() -> list[int]:
    """Our children but for those that another thread has started: what we adopt, the main thread gets."""
    return _children_of_thread(os.getpid(), os.getpid())


def children(pid: int) -> list[int]:
    """The direct children of a process, dead ones that wait to be reaped included."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as above
    except OSError:
        return []
    return [child for thread in threads for child in _children_of_thread(pid, int(thread))]


def _children_of_thread(pid: int, thread: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as listed:  # noqa: PTH123 - as above
            return [int(child) for child in listed.read().split()]
    except OSError:  # the thread ended meanwhile
        return []


def descendants(root: int) -> list[Entry]:
    """The living processes below `root`, parents before children."""
    tree: list[Entry] = []
    todo = children(root)
    while todo:
        found = entry(todo.pop())
        if found is not None:
            todo += children(found.pid)
            if not found.zombie:
                tree.append(found)
    return tree


def environment(pid: int) -> bytes:
    """What a process was started with; empty also while it executes or dies, and when not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:  # noqa: PTH123 - as above
            return environ.read()
    except OSError:
        return b""


def environment_value(pid: int, name: bytes) -> bytes | None:
    """The value a process was started with for a variable, or None when unset or not ours to read."""
    block = environment(pid)
    return value_in(block, name) if block else None


def value_in(block: bytes, name: bytes) -> bytes | None:
    """The value of a variable; None when it is unset, empty when there is no environment at all."""
    if not block:
        return b""
    return next((item[len(name) + 1 :] for item in block.split(b"\0") if item.startswith(name + b"=")), None)
