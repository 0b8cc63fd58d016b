"""The daemon gives memory back every few seconds, and the C library then lets go of it."""

import subprocess
import sys
from types import SimpleNamespace

import anyio
import pytest
from trio.testing import MockClock

from supervisor.runtime.heap import LOOK, give_back, steady, tend

MEBIBYTE = 1024 * 1024
HOLES = """
import os
from pathlib import Path
from supervisor.runtime.heap import give_back, steady

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

steady()
pinned, large = [], []
for _ in range(64):
    large.append(bytearray(b"x") * (1 << 20))
    pinned.append(bytes(2000))
before = held()
del large
print(before - held(), end=" ")
give_back()
print(before - held())
"""
"""Frees 64 MiB that lie between small blocks; says how much less is held then, and after giving back."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.mark.anyio
async def test_memory_is_given_back_every_few_seconds() -> None:
    began, given = anyio.current_time(), list[float]()

    with anyio.move_on_after(3.5 * LOOK):
        await tend(lambda: given.append(anyio.current_time() - began))

    assert given == [LOOK, 2 * LOOK, 3 * LOOK]


def test_the_holes_between_small_blocks_go_back_to_the_kernel() -> None:
    command = [sys.executable, "-c", HOLES]

    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    at_once, afterwards = map(int, ran.stdout.split())
    assert at_once < 8 * MEBIBYTE
    assert afterwards > 56 * MEBIBYTE


def test_another_c_library_is_left_alone() -> None:
    steady(SimpleNamespace())
    give_back(SimpleNamespace())
