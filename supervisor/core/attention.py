"""Whether to stay awake for somebody's next word.

Who sleeps has to be woken, and where the processor slept, too, that takes longer than most of what a call is
made of. Who stays awake takes a processor from others. So we stay awake for a moment, and only for those who
were quick time after time; for how many times, grows while it is in vain and shrinks while it is not.
"""

QUICK = 0.0001
"""Seconds in which whoever is quick says the next word, and for which we stay awake."""
PROOFS = 8
"""Quick words one after the other that are proof enough."""
MOST_PROOFS = 1024
"""And after staying awake in vain again and again, which then costs a call next to nothing."""


class Attention:
    """What is known of how quick one of those is that we talk to."""

    __slots__ = ("_expected", "_proofs", "_quick", "_since")

    def __init__(self) -> None:
        self._expected = False
        self._since = 0.0
        self._quick, self._proofs = 0, PROOFS

    def expect(self, now: float) -> float:
        """Its word is awaited from now on; returns until when to stay awake, which is mostly not at all."""
        self._expected, self._since = True, now
        return now + QUICK if self._quick >= self._proofs else 0.0

    def came(self, now: float) -> None:
        """It said something."""
        if not self._expected:
            return
        self._expected = False
        proven = self._quick >= self._proofs
        if now - self._since > QUICK:
            self._quick = 0
            self._proofs = min(2 * self._proofs, MOST_PROOFS) if proven else self._proofs
        elif proven:
            self._proofs = max(self._proofs // 2, PROOFS)
        else:
            self._quick += 1
