"""Whether a server that falls silent still lives: from evidence to a verdict, in words.

The proofs, the cheapest first: it spoke; a call is young; its processes move or are frozen; it answers a
probe. That it exited is no question of this module, but of its run. A server is asked only if it was once
seen to answer, and while a call is under way an unanswered probe alone condemns nobody: a tool may well
keep a simple server from answering. Nothing here looks, asks or waits.
"""

from msgspec import Struct

BUSY_FOR = 3
"""Intervals of silence that a server without calls may spend at work of its own."""


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known of a server at one moment; all moments are of the same clock."""

    now: float
    heard_at: float
    """When it last said anything, or became ready."""
    called_at: float | None = None
    """When the oldest call came that it has not answered; None without one."""
    expired_at: float | None = None
    """When it last let the time of a call run out; None when it never did."""
    moved_at: float | None = None
    """When its processes were last seen to have used a processor, read or written; None without processes."""
    frozen_at: float | None = None
    """Since when all of them are stopped by a signal; None while they are not."""
    answers: bool = False
    """Whether it ever answered a probe."""
    asked_at: float | None = None
    """When it was last sent a probe; None when it was not."""


class Alive(Struct, frozen=True):
    """There is no reason to doubt it, or not enough."""

    reason: str


class Ask(Struct, frozen=True):
    """Only an answer can tell: send a probe."""

    reason: str


class Dead(Struct, frozen=True):
    """It is not going to answer."""

    reason: str
    """What it did or did not do, as in "did not answer"."""


Verdict = Alive | Ask | Dead


def judge(evidence: Evidence, *, interval: float) -> Verdict:
    """What the evidence says; `interval` is how long a server may be silent before it is doubted."""
    if evidence.now < evidence.heard_at + interval:
        return Alive("it spoke")
    if evidence.frozen_at is not None and evidence.frozen_at + interval <= evidence.now:
        return Dead(f"was stopped by a signal and did not go on for {interval:g} s")
    if evidence.called_at is not None:
        return _during_a_call(evidence, evidence.called_at, interval)
    return _at_rest(evidence, interval)


def next_look(evidence: Evidence, *, interval: float) -> float:
    """When the evidence can say something new: an interval after the last word, or after this look."""
    due = evidence.heard_at + interval
    return due if evidence.now < due else evidence.now + interval


def _during_a_call(evidence: Evidence, called_at: float, interval: float) -> Verdict:
    expired = evidence.expired_at is not None and evidence.heard_at < evidence.expired_at
    if evidence.now < called_at + interval and not expired:
        return Alive("its calls are young")
    if _moves(evidence, interval):
        return Alive("it works on a call")
    verdict = _asked(evidence, interval)
    if isinstance(verdict, Dead) and not expired:
        return Alive("it does not answer, but a call is under way")
    return verdict


def _at_rest(evidence: Evidence, interval: float) -> Verdict:
    if _moves(evidence, interval) and evidence.now < evidence.heard_at + BUSY_FOR * interval:
        return Alive("it works on something of its own")
    return _asked(evidence, interval)


def _asked(evidence: Evidence, interval: float) -> Verdict:
    if not evidence.answers:
        return Alive("it is silent, and was never seen to answer a probe")
    if evidence.asked_at is None or evidence.asked_at <= evidence.heard_at:
        return Ask("it is silent")
    if evidence.now < evidence.asked_at + interval:
        return Alive("it was asked")
    return Dead(f"did not answer a probe for {evidence.now - evidence.asked_at:.3g} s")


def _moves(evidence: Evidence, interval: float) -> bool:
    return evidence.moved_at is not None and evidence.now < evidence.moved_at + interval
