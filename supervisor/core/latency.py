"""How long calls took, recently."""

from collections import deque

import msgspec

KEPT = 512


class LatencyView(msgspec.Struct, frozen=True):
    """How long recent calls took, in seconds."""

    p50: float
    """Half of the recent calls took no longer."""
    p99: float
    """All but one in a hundred took no longer."""


class Latencies:
    """The durations of the last calls."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=KEPT)
        self.add = self._recent.append

    def view(self) -> LatencyView | None:
        """Half, and all but one in a hundred, of the recent calls took no longer; None without any."""
        if not self._recent:
            return None
        ordered = sorted(self._recent)
        return LatencyView(p50=_at(ordered, 0.50), p99=_at(ordered, 0.99))


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
