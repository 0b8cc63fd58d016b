"""Long work in small pieces: everybody else has a turn in between."""

import time
from collections.abc import Generator
from typing import TypeVar

import anyio.lowlevel

_PIECE = 0.005
"""Seconds of work after which others come first."""

Value = TypeVar("Value")


async def in_pieces(work: Generator[None, None, Value]) -> Value:
    """What the work returns; it says with each `yield` that it could be interrupted there."""
    began = time.perf_counter()
    while True:
        try:
            next(work)
        except StopIteration as done:
            value: Value = done.value
            return value
        if time.perf_counter() - began > _PIECE:
            await anyio.lowlevel.checkpoint()
            began = time.perf_counter()
