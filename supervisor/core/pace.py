"""How long to leave a source alone that says much which nobody asked for.

Hearing it takes time that others need. So each moment of hearing is to be followed by a rest that is some
times as long. Time that passes by itself pays for it, and a little may be owed: whoever talks now and then,
or prints a page before it dies, is heard at once.
"""

AWAITED = 10
"""A source that never stops gets one part in so many of our time, while somebody waits for it to answer."""
IDLE = 100
"""And one in so many while nobody does: less than the hundredth call of others can feel."""
CREDIT = 0.0033
"""Seconds of hearing for which no rest is due."""
LEAST = 0.001
"""Seconds of rest that are worth a timer."""
LONGEST = 0.05
"""Seconds of rest after which to look again: somebody may wait by then."""


class Pace:
    """The rests that one source owes us."""

    __slots__ = ("_at", "_unpaid")

    def __init__(self) -> None:
        self._unpaid = self._at = 0.0

    @property
    def floods(self) -> bool:
        """Whether it says more than we can hear with care."""
        return self._unpaid > CREDIT / 2

    def rest(self, took: float, now: float, share: int = AWAITED) -> float:
        """Seconds for which to hear no more, after hearing took so long and ended `now`; mostly none."""
        passed = max(now - took - self._at, 0.0)
        self._unpaid = unpaid = max(self._unpaid - passed / (share - 1), 0.0) + took
        self._at = now
        owed = (unpaid - CREDIT) * (share - 1)
        return min(owed, LONGEST) if owed >= LEAST else 0.0
