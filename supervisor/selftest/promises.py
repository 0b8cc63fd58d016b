"""What this program promises, in order of weight; every verdict is about one of these."""

from dataclasses import dataclass
from enum import Enum


class Promise(Enum):
    NOTHING_LEFT = "nothing that was started outlives its stop"
    NO_HARM = "one bad server hurts neither another nor the daemon"
    TRUTH = "what status, metrics and the tool list say is true"
    ACCOUNT = "a call ends, with a true account of what happened to it"
    SPEED = "it is fast enough that nobody would go around it"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A promise that was seen broken, and how."""

    promise: Promise
    sentence: str
    by_chance: bool = False
    """Whether a busy machine can look like this; it counts when it is seen again and again."""
