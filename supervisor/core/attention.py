"""Whether to stay awake for somebody's next word.

Who sleeps has to be woken, and where the processor slept, too, that takes longer than most of what a call is
made of. Who stays awake takes a processor from others. So we stay awake for a moment, for whoever was quick
last time. After each time in vain we sleep through so many words; that grows while it is in vain and shrinks
while it is not.
"""

QUICK = 0.0001
"""Seconds in which whoever is quick says the next word, and for which we stay awake."""
PENALTY = 8
"""Words that we sleep through after we stayed awake in vain, ..."""
LONGEST_PENALTY = 1024
"""... and after that was so again and again: then it costs next to nothing."""


class Attention:
    """What is known of how quick one of those is that we talk to."""

    __slots__ = ("_asleep_for", "_awake", "_expected", "_penalty", "_quick", "_since")

    def __init__(self) -> None:
        self._expected = self._awake = self._quick = False
        self._since = 0.0
        self._penalty = self._asleep_for = 0

    def expect(self, now: float) -> float:
        """Its word is awaited from now on; returns until when to stay awake, or 0 for not at all."""
        self._lapse(now)
        self._expected, self._since = True, now
        self._awake = self._quick and not self._asleep_for
        return now + QUICK if self._awake else 0.0

    def expect_nothing(self, now: float) -> None:
        """When its next word comes says nothing about it."""
        self._lapse(now)
        self._expected = False

    def came(self, now: float) -> None:
        """It said something."""
        if not self._expected:
            return
        self._expected = False
        self._quick = now - self._since <= QUICK
        if not self._awake:
            self._asleep_for = max(self._asleep_for - 1, 0)
        elif self._quick:
            self._penalty //= 2
        else:
            self._penalty = self._asleep_for = min(max(2 * self._penalty, PENALTY), LONGEST_PENALTY)

    def _lapse(self, now: float) -> None:
        """What was awaited is not awaited any more: that it did not come proves something when it is late."""
        if self._expected and now - self._since > QUICK:
            self.came(now)
