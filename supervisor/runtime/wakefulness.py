"""Staying awake for the next word of a server or a client, where `core/attention.py` finds it worth while.

Awake means that the loop looks at everything again and again instead of sleeping. All others are served as
ever.
"""

import os
import time
from collections.abc import Callable

from supervisor.core.attention import Attention

CallSoon = Callable[[Callable[[], None]], object]
"""Has something called in the loop's next turn; a loop for which something waits does not sleep."""


class Wakefulness:
    """For one of those that we talk to."""

    __slots__ = ("_attention", "_call_soon", "_clock", "_looking", "_until")

    def __init__(self, call_soon: CallSoon, clock: Callable[[], float] = time.monotonic) -> None:
        self._call_soon, self._clock = call_soon, clock
        self._attention = Attention()
        self._until = 0.0
        self._looking = False

    def expect(self, now: float) -> None:
        """Its next word is awaited from now on."""
        self._until = self._attention.expect(now)
        if self._until and not self._looking:
            self._looking = True
            self._call_soon(self._look)

    def expect_nothing(self, now: float) -> None:
        """There is much to do: whatever comes is seen soon enough."""
        self._until = 0.0
        self._attention.expect_nothing(now)

    def came(self, now: float) -> None:
        """It said something."""
        self._until = 0.0
        self._attention.came(now)

    def _look(self) -> None:
        if self._clock() < self._until:
            # Whom we wait for may have been put behind us, on our processor, and would wait for us.
            os.sched_yield()
            self._call_soon(self._look)
        else:
            self._looking = False
