"""A line in the log for every change of a server's phase, with what it wrote last where that explains it."""

import logging

from supervisor.core.phases import Backoff, Unavailable
from supervisor.core.view import phase_word
from supervisor.logs import about
from supervisor.runtime.actor import Transition
from supervisor.runtime.member import Member

logger = logging.getLogger("supervisor.runtime.fleet")
"""The story is the fleet's, and is known by that name in journals."""


def log_transition(member: Member, transition: Transition, *, current: bool) -> None:
    """Log it; `current` says whether the member is the one that its name means now."""
    phase, reason = phase_word(transition.after.phase), transition.reason
    name = member.name if current else f"{member.name} (other run)"
    level = logging.INFO
    if isinstance(transition.after.phase, Unavailable):
        tail = " | ".join(line.text for line in member.log.tail(3))
        level, reason = logging.ERROR, f"{reason}; stderr: {tail}" if tail else reason
    elif isinstance(transition.after.phase, Backoff):
        level = logging.WARNING
    extra = about(member.name, phase=phase, run=transition.after.run)
    logger.log(level, "%s: %s: %s", name, phase, reason, extra=extra)
