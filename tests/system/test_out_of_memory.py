"""The kernel really kills a server that uses up the memory of its cgroup; needs root."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.support import Launcher, fake, launching, until

LIMIT = 64 * 1024 * 1024
TOO_MUCH = 4 * LIMIT
STARVED = "killed by signal 9 (SIGKILL); the kernel has killed for want of memory since it started"
OLD, NEW = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
pytestmark = pytest.mark.system


class Larder:
    """A cgroup with little memory."""

    def __init__(self, place: Path) -> None:
        self._place, old = place, place.parent == OLD
        self._kills = place / ("memory.oom_control" if old else "memory.events")
        limit = "memory.limit_in_bytes" if old else "memory.max"
        (place / limit).write_text(str(LIMIT))

    def take(self, pid: int) -> None:
        assert pid > 1
        (self._place / "cgroup.procs").write_text(str(pid))

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed in it for want of memory."""
        lines = dict(line.split() for line in self._kills.read_text(encoding="ascii").splitlines())
        return int(lines["oom_kill"])


@contextmanager
def made(place: Path) -> Iterator[Larder]:
    place.mkdir()
    try:
        yield Larder(place)
    finally:
        until(lambda: (place / "cgroup.procs").read_text(encoding="ascii") == "")
        place.rmdir()


@pytest.fixture
def larder() -> Iterator[Larder]:
    """A cgroup of either kind, where this machine lets us make one."""
    parent = OLD if OLD.is_dir() else NEW
    if parent == NEW and "memory" not in _read(NEW / "cgroup.subtree_control").split():
        pytest.skip("no memory cgroup can be made here")
    if os.geteuid() != 0 or not os.access(parent, os.W_OK):
        pytest.skip("to make a memory cgroup needs root")
    with made(parent / f"mcp-supervisor-{os.getpid()}") as larder:
        yield larder


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii") if path.exists() else ""


@pytest.fixture
def launcher(tmp_path: Path, larder: Larder) -> Iterator[Launcher]:
    with launching(tmp_path) as launcher:
        yield launcher


def test_who_is_killed_for_want_of_memory_dies_alone_and_the_reason_is_shown(
    launcher: Launcher, larder: Larder
) -> None:
    client = launcher.start({"greedy": fake(), "other": fake("--tools", 1)}).client
    pid = client.server("other")["pid"]
    larder.take(client.server("greedy")["pid"])

    error = client.error("tools/call", name="greedy_big", arguments={"bytes": TOO_MUCH})

    assert larder.kills == 1
    assert (error["code"], error["data"]["outcome"]) == (-32004, "unknown")
    until(lambda: client.server("greedy")["state"] == "unavailable")
    assert client.server("greedy")["reason"] == STARVED
    [suggestion] = client.result("servers/why", server="greedy")["suggestions"]
    assert suggestion["cause"].startswith(f"It was {STARVED}")
    assert client.server("other")["pid"] == pid
    assert client.text("other_echo", still="here") == '{"still": "here"}'


def test_who_is_killed_later_is_not_said_to_have_lacked_memory(launcher: Launcher, larder: Larder) -> None:
    client = launcher.start({"greedy": fake()}).client
    larder.take(client.server("greedy")["pid"])
    client.error("tools/call", name="greedy_big", arguments={"bytes": TOO_MUCH})
    until(lambda: client.server("greedy")["state"] == "unavailable")
    client.result("servers/start", server="greedy")

    os.kill(client.server("greedy")["pid"], signal.SIGKILL)

    until(lambda: client.server("greedy")["state"] == "unavailable")
    assert client.server("greedy")["reason"] == "killed by signal 9 (SIGKILL)"
