"""The words of a server's life: phases, events, effects and the state that `lifecycle.step` turns.

Facts are past (`Opened`, `Ended`), wishes are `…Requested`, orders are imperative (`Open`, `Close`). A phase
holds only what exists in it, its deadline included.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from supervisor.core.restart import RestartPolicy


class Goal(StrEnum):
    UP = "up"
    DOWN = "down"


class StopCause(StrEnum):
    """Why a run is being stopped; it decides what follows the end."""

    REQUESTED = "stop requested"
    RESTART = "restart requested"
    IDLE = "nobody used it"
    START_TIMEOUT = "start timeout"
    LOST = "lost"
    UNHEALTHY = "unhealthy"


# Phases. Each holds exactly what exists in it.


@dataclass(frozen=True, slots=True)
class Stopped:
    pass


@dataclass(frozen=True, slots=True)
class Idle:
    """Lazy, and waiting for a first call."""


@dataclass(frozen=True, slots=True)
class Starting:
    deadline: float


@dataclass(frozen=True, slots=True)
class Ready:
    since: float
    deadline: float | None = None
    """When to look whether anybody still uses it; None without an idle timeout."""


@dataclass(frozen=True, slots=True)
class Stopping:
    deadline: float
    cause: StopCause
    detail: str
    served: float = 0.0
    """Seconds for which the run had been ready."""


@dataclass(frozen=True, slots=True)
class Killing:
    deadline: float
    cause: StopCause
    detail: str
    served: float = 0.0


@dataclass(frozen=True, slots=True)
class Backoff:
    deadline: float


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Ended and not to be restarted, or given up."""

    reason: str


Phase = Stopped | Idle | Starting | Ready | Stopping | Killing | Backoff | Unavailable


@dataclass(frozen=True, slots=True)
class ServerState:
    goal: Goal = Goal.DOWN
    phase: Phase = Stopped()
    run: int = 0
    failures: tuple[float, ...] = ()

    @property
    def deadline(self) -> float | None:
        """When `DeadlinePassed` is due, if ever."""
        match self.phase:
            case Starting() | Ready() | Stopping() | Killing() | Backoff():
                return self.phase.deadline
            case Stopped() | Idle() | Unavailable():
                return None
        assert_never(self.phase)


# Events. Commands say what is wanted, facts say what has happened.


@dataclass(frozen=True, slots=True)
class StartRequested:
    pass


@dataclass(frozen=True, slots=True)
class StopRequested:
    pass


@dataclass(frozen=True, slots=True)
class KillRequested:
    """Stop now, without grace."""


@dataclass(frozen=True, slots=True)
class RestartRequested:
    pass


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call waits for this server."""


@dataclass(frozen=True, slots=True)
class Retuned:
    """The policy changed; deadlines that hang on it are set anew."""

    used_at: float = 0.0


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    used_at: float = 0.0
    """When the server was last used; the present moment while a call is in flight."""


@dataclass(frozen=True, slots=True)
class Opened:
    run: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The server can no longer answer, but its resources are not gone yet."""

    run: int
    detail: str


@dataclass(frozen=True, slots=True)
class Unhealthy:
    run: int
    detail: str


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended."""

    detail: str
    code: int | None = None
    signal: int | None = None
    hopeless: bool = False
    """Trying again cannot help, as with a command that does not exist."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over and its resources are proven gone."""

    run: int
    end: End


Command = StartRequested | StopRequested | KillRequested | RestartRequested | Wanted
Event = Command | Retuned | DeadlinePassed | Opened | Lost | Unhealthy | Ended


# Effects. Orders to the actor; the same three serve stdio children and HTTP sessions.


@dataclass(frozen=True, slots=True)
class Open:
    run: int


@dataclass(frozen=True, slots=True)
class Close:
    """Ask the run to end: close stdin and SIGTERM the group, or end the HTTP session."""

    run: int


@dataclass(frozen=True, slots=True)
class Abort:
    """End the run by force: SIGKILL the group, or drop the connection."""

    run: int


Effect = Open | Close | Abort


@dataclass(frozen=True, slots=True)
class Policy:
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    start_timeout: float = 30.0
    stop_grace: float = 5.0
    kill_retry: float = 2.0
    lazy: bool = False
    idle_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    state: ServerState
    effects: tuple[Effect, ...] = ()
    reason: str = ""
