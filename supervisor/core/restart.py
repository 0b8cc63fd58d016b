"""When to try again: the restart policy as arithmetic.

`decide` sees the times of recent unplanned ends and says what comes next. It owns no clock and no
dice: `now` and `jitter` are arguments, so a test is one line and a decision can be replayed.
"""

from typing import Literal

import msgspec

Mode = Literal["never", "on-failure", "always"]


SOON = 0.5
"""Seconds that a call need not wait longer for a new try, however long the delay of the schedule is."""


class RestartPolicy(msgspec.Struct, frozen=True):
    mode: Mode = "never"
    delay: float = 0.5
    """Seconds before the first new try; each further one waits twice as long."""
    max_delay: float = 30.0
    max_failures: int = 5
    """Give up when this many unplanned ends fall inside `window`."""
    window: float = 300.0
    healthy_after: float = 60.0
    """A server that was ready for this long has proven itself: what failed before no longer counts."""

    @property
    def pace(self) -> float:
        """Seconds between the end of a run and a new try that a call asks for, at least."""
        return min(self.delay, SOON)


class Retry(msgspec.Struct, frozen=True):
    delay: float
    reason: str


class GiveUp(msgspec.Struct, frozen=True):
    reason: str
    """Empty where nobody asked for restarts: the end alone says it all."""


Decision = Retry | GiveUp


def recent(failures: tuple[float, ...], *, now: float, window: float) -> tuple[float, ...]:
    """The failures that still count."""
    return tuple(at for at in failures if now - at < window)


def decide(
    policy: RestartPolicy,
    failures: tuple[float, ...],
    *,
    clean: bool,
    now: float,
    jitter: float,
    due: float | None = None,
) -> Decision:
    """What to do after the latest unplanned end, whose time is already in `failures` if it counts.

    One that came before `due`, the schedule's next try, does not: calls that wake a server neither use up its
    budget nor lengthen its delay.

    `clean` tells that a ready server left by itself with exit code 0. `jitter` is a number in [0, 1); it
    lengthens the delay by up to a tenth, so that servers which fell together do not rise together.
    """
    if policy.mode == "never":
        return GiveUp("")
    if policy.mode == "on-failure" and clean:
        return GiveUp("not restarted, as it ended cleanly and restart is on-failure")
    count = len(recent(failures, now=now, window=policy.window))
    if count >= policy.max_failures:
        return GiveUp(f"crash loop: {count} failures in {policy.window:g} s")
    if due is None:
        delay = min(policy.delay * 2.0 ** min(count - 1, 64), policy.max_delay) * (1 + jitter / 10)
    else:
        delay = due - now
    return Retry(delay, f"to be tried again, failure {count} of at most {policy.max_failures}")
