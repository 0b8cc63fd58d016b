"""The daemon's own memory: fast to have while there is work, and given back soon after.

Owns the settings of the C library's allocator, and the task that returns free pages to the kernel. It knows
nothing of what the memory is for. Where the C library is not glibc, nothing is set and nothing is returned.

Left alone, glibc decides by the largest block that was ever freed whether a large result comes from the heap
or from the kernel. From the kernel, each page costs a fault, which doubles the price of a result of 1 MB;
from the heap, the holes between small blocks stay ours for ever. So everything comes from the heap, and what
is free in it is given back every few seconds.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import anyio

LOOK = 5.0
"""Seconds between two times that memory is given back."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""The numbers of `mallopt`, from malloc.h."""
_LARGEST = 32 * 1024 * 1024
"""Bytes; glibc takes no larger threshold."""


def steady(library: Any = None) -> None:
    """Take blocks of up to 32 MiB from one heap, whatever was freed before. Call it before any thread."""
    set_option = getattr(library or ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, _LARGEST)
        set_option(_TRIM_THRESHOLD, 2 * _LARGEST)
        set_option(_ARENA_MAX, 1)


def give_back(library: Any = None) -> None:
    """Return every free page of the heap to the kernel: 8 ms for 45 MB, 0.03 ms when there is nothing."""
    trim = getattr(library or ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def tend(give_back: Callable[[], None] = give_back) -> None:
    """Give back every few seconds, until cancelled."""
    while True:
        await anyio.sleep(LOOK)
        give_back()
