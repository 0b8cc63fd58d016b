"""What a server's processes use up, read from `/proc`.

A tree is read process by process, so the cost follows the server's own size and not the machine's.
"""

import os

from msgspec import Struct

from supervisor.runtime import proctable

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(Struct, frozen=True):
    """Of a process and everything below it."""

    processes: int
    rss: int
    """Resident bytes; what processes share is counted for each."""
    cpu: float
    """Seconds of processor time, in user and system mode, of those that live now."""
    descriptors: int


def usage(pid: int) -> Usage | None:
    """What the tree of `pid` uses up; None when it is gone."""
    root = proctable.entry(pid)
    if root is None or root.zombie:
        return None
    tree = [pid, *(found.pid for found in proctable.descendants(pid))]
    return Usage(
        processes=len(tree),
        rss=sum(map(_rss, tree)),
        cpu=sum(map(_cpu, tree)),
        descriptors=sum(map(_descriptors, tree)),
    )


def _rss(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _cpu(pid: int) -> float:
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if text else 0.0


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - no Path per descriptor
    except OSError:
        return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - read for every process of a fleet
            return file.read()
    except OSError:
        return b""
