"""How long to leave a source alone that says much which nobody asked for.

Hearing it takes time that others need. So each moment of hearing is to be followed by a rest that is some
times as long. Time that passes by itself pays for it, and a little may be owed: whoever talks now and then,
or prints a page before it dies, is heard at once.
"""

SHARE = 10
"""A source that never stops gets one part in so many of our time."""
CREDIT = 0.03
"""Seconds of rest that a source may owe us."""
LEAST = 0.001
"""Seconds of rest that are worth a timer."""


class Pace:
    """The rests that one source owes us."""

    __slots__ = ("_at", "_owed")

    def __init__(self) -> None:
        self._owed = self._at = 0.0

    @property
    def floods(self) -> bool:
        """Whether it says more than we can hear with care."""
        return self._owed > CREDIT / 2

    def rest(self, took: float, now: float) -> float:
        """Seconds for which to hear no more, after hearing took so long and ended `now`; mostly none."""
        passed = max(now - took - self._at, 0.0)
        self._owed = owed = max(self._owed - passed, 0.0) + (SHARE - 1) * took
        self._at = now
        return owed - CREDIT if owed >= CREDIT + LEAST else 0.0
