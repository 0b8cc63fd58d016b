"""One likely cause of a server's trouble and its fix, as a value.

How one is arrived at is `diagnosis`'s and `clues`', which are loaded when somebody asks.
"""

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """The causes that are told apart; a stable word for programs."""

    BAD_CONFIG = "bad-config"
    BEHIND = "behind"
    MISSING_VARIABLE = "missing-variable"
    MISSING_REFERENCE = "missing-reference"
    NOT_FOUND = "not-found"
    ARGUMENTS_IN_COMMAND = "arguments-in-command"
    NOT_EXECUTABLE = "not-executable"
    WRONG_FORMAT = "wrong-format"
    BAD_INTERPRETER = "bad-interpreter"
    NO_DIRECTORY = "no-directory"
    ECHO = "echo"
    PROTOCOL = "protocol"
    BROKEN_LISTING = "broken-listing"
    BROKEN_PIPE = "broken-pipe"
    FRAMING = "framing"
    SLOW_DOWNLOAD = "slow-download"
    NO_ANSWER = "no-answer"
    NEEDS_CREDENTIALS = "needs-credentials"
    NEEDS_TERMINAL = "needs-terminal"
    WRONG_ARGUMENTS = "wrong-arguments"
    MODULE_NOT_FOUND = "module-not-found"
    PACKAGE_NOT_FOUND = "package-not-found"
    IN_USE = "in-use"
    PERMISSION = "permission"
    CERTIFICATE = "certificate"
    NETWORK = "network"
    MEMORY = "memory"
    NOISE = "noise"
    UNHEALTHY = "unhealthy"
    KILLED = "killed"
    CRASHED = "crashed"
    REFUSED_BY_SYSTEM = "refused-by-system"
    CRASH_LOOP = "crash-loop"
    EXITED = "exited"
    EXITED_CLEANLY = "exited-cleanly"
    ENDED_IN_SERVICE = "ended-in-service"
    NOT_INHERITED = "not-inherited"
    STARTING = "starting"
    STOPPING = "stopping"
    IDLE = "idle"
    STOPPED = "stopped"
    DISABLED = "disabled"
    FINE = "fine"
    NO_TOOLS = "no-tools"
    REFUSED_BY_POLICY = "refused-by-policy"
    FILTERED = "filtered"
    LEFT_OUT = "left-out"
    UNKNOWN = "unknown"


class Suggestion(Struct, frozen=True):
    """One likely cause and what to do about it, in words."""

    kind: Kind
    """A stable word for programs."""
    cause: str
    """What is, or looks, wrong."""
    fix: str
    """What to do about it."""
