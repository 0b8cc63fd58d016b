"""The pulse of a server's processes: what they have used up so far, and whether they can move at all.

Reads `/proc` for one tree. Two pulses that are equal mean that nothing moved between them; what that says
about the server is `core.liveness`'s.
"""

from pathlib import Path

from msgspec import Struct

from supervisor.runtime import proctable

_STOPPED = "T"
"""Stopped by a signal; a process that is being debugged has another letter."""
_TIMES = slice(11, 13)


class Pulse(Struct, frozen=True):
    """Of a process and everything below it, at one moment."""

    figures: tuple[tuple[int, tuple[bytes, ...], bytes], ...]
    """Of each process its pid, its processor times, and what it has read and written."""
    frozen: bool
    """Whether a signal keeps all of them from moving."""


def pulse(pid: int) -> Pulse | None:
    """The pulse of the tree of `pid`; None when it is gone."""
    root = proctable.entry(pid)
    if root is None or root.zombie:
        return None
    tree = [root, *proctable.descendants(pid)]
    return Pulse(
        figures=tuple((each.pid, _times(each.pid), _read(each.pid, "io")) for each in tree),
        frozen=all(each.state == _STOPPED for each in tree),
    )


def _times(pid: int) -> tuple[bytes, ...]:
    stat = _read(pid, "stat")
    return tuple(stat[stat.rfind(b")") + 2 :].split()[_TIMES])


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty when the process is gone, or the file is not ours to read."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
