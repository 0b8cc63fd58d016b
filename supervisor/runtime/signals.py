"""Signals to the daemon, heard one after the other, and none of them a surprise at the end.

The loops give a signal back to the system when they stop listening, and it would then end us in the middle of
our own end: in whichever thread does not hold it back. So the handlers are ours, and what comes after we
listened is ignored for good.
"""

import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Generator
from types import FrameType

import anyio


@contextlib.contextmanager
def heard(*numbers: signal.Signals) -> Generator[AsyncIterator[signal.Signals]]:
    """Hear of these signals, which have been held back so far, in the order in which they come."""
    bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    waiting: deque[signal.Signals] = deque()
    listening = True

    def ring(number: int, _frame: FrameType | None) -> None:
        # This may run between any two instructions, so it does no more. A storm of signals is heard as one.
        if listening and number not in waiting:
            waiting.append(signal.Signals(number))
            os.eventfd_write(bell, 1)

    for number in numbers:
        signal.signal(number, ring)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
        yield _one_by_one(bell, waiting)
    finally:
        listening = False
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        os.close(bell)


async def _one_by_one(bell: int, waiting: deque[signal.Signals]) -> AsyncIterator[signal.Signals]:
    while True:
        await anyio.wait_readable(bell)
        os.eventfd_read(bell)
        while waiting:
            yield waiting.popleft()
