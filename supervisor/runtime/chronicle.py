"""A line in the log for every change of a server's phase, with what it wrote last where that explains it.

Decides what a line says at the moment of the change, which is also its time, and writes it a little later:
writing one takes as long as the change itself, and what the change leads to comes first, as do calls.
"""

import functools
import logging
import time

import anyio
import anyio.lowlevel
from msgspec import Struct

from supervisor.core.phases import Backoff, Unavailable
from supervisor.core.view import phase_word
from supervisor.logs import about, write_later, write_waiting
from supervisor.runtime.actor import Transition
from supervisor.runtime.member import Member

logger = logging.getLogger("supervisor.runtime.fleet")
"""The story is the fleet's, and is known by that name in journals."""

_LATER = 0.005
"""Seconds for which a line waits, unless something else is logged meanwhile."""
_SLICE = 0.001
"""Seconds of writing after which others come first, where many servers change at once."""


class _Line(Struct, frozen=True):
    at: float
    level: int
    server: str
    """As the line names it."""
    phase: str
    reason: str
    extra: dict[str, dict[str, object]]


class Chronicle:
    """Tells what happens, and sees to it that it is written."""

    def __init__(self) -> None:
        self._news = anyio.Event()

    def tell(self, member: Member, transition: Transition, *, current: bool) -> None:
        """Have it logged; `current` says whether the member is the one that its name means now."""
        phase, reason = phase_word(transition.after.phase), transition.reason
        name = member.name if current else f"{member.name} (other run)"
        level = logging.INFO
        if isinstance(transition.after.phase, Unavailable):
            tail = " | ".join(line.text for line in member.log.tail(3))
            level, reason = logging.ERROR, f"{reason}; stderr: {tail}" if tail else reason
        elif isinstance(transition.after.phase, Backoff):
            level = logging.WARNING
        extra = about(member.name, phase=phase, run=transition.after.run)
        write_later(functools.partial(_write, _Line(time.time(), level, name, phase, reason, extra)))
        self._news.set()

    async def run(self) -> None:
        """Write until cancelled; what is left then is written at once."""
        try:
            while True:
                await self._news.wait()
                await anyio.sleep(_LATER)
                self._news = anyio.Event()
                while write_waiting(seconds=_SLICE):
                    await anyio.lowlevel.checkpoint()
        finally:
            write_waiting()


def _write(line: _Line) -> None:
    if logger.isEnabledFor(line.level):
        words = (line.server, line.phase, line.reason)
        record = logger.makeRecord(
            logger.name, line.level, __file__, 0, "%s: %s: %s", words, None, "tell", line.extra
        )
        record.created = line.at
        logger.handle(record)
