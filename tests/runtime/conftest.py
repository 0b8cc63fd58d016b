"""Fixtures for tests that start real children: whatever a test does, nothing of it may be left."""

import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from supervisor.runtime import proctable
from supervisor.runtime.memory import Memory
from supervisor.runtime.orphans import Orphans, become_subreaper
from supervisor.runtime.stdio import Host
from tests.runtime.fleet_support import Build
from tests.runtime.support import INSTANCE, children_of_ours

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="session")
def _uvloop_is_set_up() -> None:
    """The first loop of a process opens a pipe that libuv keeps for good."""
    uvloop.new_event_loop().close()


@pytest.fixture
def nothing_left(_uvloop_is_set_up: None) -> Iterator[None]:
    """Fails when a test leaves a child, dead or alive, or a descriptor; what escaped is adopted by us."""
    descriptors, children = _descriptors(), set(children_of_ours())
    assert become_subreaper()
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    left = [proctable.entry(pid) for pid in children_of_ours() if pid not in children]
    for found in filter(None, left):
        os.kill(found.pid, signal.SIGKILL)
        os.waitpid(found.pid, 0)
    assert left == []
    assert _descriptors() == descriptors


@pytest.fixture
def orphans() -> Orphans:
    return Orphans(INSTANCE, adopts=True)


@pytest.fixture
def host(orphans: Orphans) -> Host:
    return Host(orphans, Memory(None))


@pytest.fixture
def build(tmp_path: Path, host: Host) -> Build:
    return Build(tmp_path, host)


def _descriptors() -> dict[str, str]:
    """Our open descriptors and what they are, but for the one that looks."""
    return {link.name: str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
