"""The words of a server's life: phases, events, effects and the state that `lifecycle.step` turns.

Facts are past (`Opened`, `Ended`), wishes are `…Requested`, orders are imperative (`Open`, `Close`). A phase
holds only what exists in it, its deadline included. They are structs, as so many data classes would cost
30 ms of every start.
"""

from enum import StrEnum
from typing import assert_never

import msgspec

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


class Stopped(msgspec.Struct, frozen=True):
    pass


class Idle(msgspec.Struct, frozen=True):
    """Lazy, and waiting for a first call."""


class Starting(msgspec.Struct, frozen=True):
    deadline: float | None = None
    """None while it waits for its turn: a queue is not the server's fault."""


class Ready(msgspec.Struct, frozen=True):
    since: float
    deadline: float | None = None
    """When to look whether anybody still uses it; None without an idle timeout."""


class Stopping(msgspec.Struct, frozen=True):
    deadline: float
    cause: StopCause
    detail: str
    served: float = 0.0
    """Seconds for which the run had been ready."""
    over: bool = False
    """The run has ended, and only what lingers of earlier ones is waited for."""


class Killing(msgspec.Struct, frozen=True):
    deadline: float
    cause: StopCause
    detail: str
    served: float = 0.0
    over: bool = False


class Backoff(msgspec.Struct, frozen=True):
    deadline: float
    soonest: float = 0.0
    """When a call may have it tried again, at the earliest."""
    asked: bool = False
    """The server itself asked to be let alone for so long, so no call cuts it short."""


class Unavailable(msgspec.Struct, frozen=True):
    """Ended and not to be restarted, or given up."""

    reason: str


Phase = Stopped | Idle | Starting | Ready | Stopping | Killing | Backoff | Unavailable


class ServerState(msgspec.Struct, frozen=True):
    goal: Goal = Goal.DOWN
    phase: Phase = Stopped()
    run: int = 0
    failures: tuple[float, ...] = ()
    """Ends that count."""
    due: float = 0.0
    """When the schedule has its next try. What a call wakes sooner and fails before that does not count."""
    stillborn: bool = False
    """Whether its last run ended before it was ready."""
    lingering: tuple[int, ...] = ()
    """Runs that have parted and are not gone yet, the oldest first."""

    @property
    def doubtful(self) -> bool:
        """Whether its next start will probably fail too, so that others go first."""
        return self.stillborn or len(self.failures) > 1

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


class StartRequested(msgspec.Struct, frozen=True):
    pass


class StopRequested(msgspec.Struct, frozen=True):
    reason: str = "stop requested"
    """Whose wish it is, in the words that status will have for it."""


class KillRequested(msgspec.Struct, frozen=True):
    """Stop now, without grace."""


class RestartRequested(msgspec.Struct, frozen=True):
    pass


class Wanted(msgspec.Struct, frozen=True):
    """A call waits for this server."""


class Retuned(msgspec.Struct, frozen=True):
    """The policy changed; deadlines that hang on it are set anew."""

    used_at: float = 0.0


class DeadlinePassed(msgspec.Struct, frozen=True):
    used_at: float = 0.0
    """When the server was last used; the present moment while a call is in flight."""


class Launched(msgspec.Struct, frozen=True):
    """The run had its turn and begins; from now on the server has its time to start."""

    run: int


class Opened(msgspec.Struct, frozen=True):
    run: int


class Lost(msgspec.Struct, frozen=True):
    """The server can no longer answer, but its resources are not gone yet."""

    run: int
    detail: str


class Unhealthy(msgspec.Struct, frozen=True):
    run: int
    detail: str


class End(msgspec.Struct, frozen=True):
    """How a run ended."""

    detail: str
    code: int | None = None
    signal: int | None = None
    hopeless: bool = False
    """Trying again cannot help, as with a command that does not exist."""
    retry_after: float | None = None
    """Seconds for which the server asked to be let alone."""
    deaths: int = 1
    """How many processes it cost: two, where one died when it was asked for its era and the next one too."""


class Parted(msgspec.Struct, frozen=True):
    """The run is over, as its server is lost; requests that it has under way may still end by themselves.

    Another run may begin meanwhile. `Ended` follows when the last of them has ended.
    """

    run: int
    end: End


class Ended(msgspec.Struct, frozen=True):
    """The run is over and its resources are proven gone."""

    run: int
    end: End


Command = StartRequested | StopRequested | KillRequested | RestartRequested | Wanted
Fact = Launched | Opened | Lost | Unhealthy | Parted | Ended
Event = Command | Fact | Retuned | DeadlinePassed


# Effects. Orders to the actor; the same three serve stdio children and HTTP sessions.


class Open(msgspec.Struct, frozen=True):
    run: int


class Close(msgspec.Struct, frozen=True):
    """Ask the run to end: close stdin and SIGTERM the group, or end the HTTP session."""

    run: int


class Abort(msgspec.Struct, frozen=True):
    """End the run by force: SIGKILL the group, or drop the connection."""

    run: int


Effect = Open | Close | Abort


class Policy(msgspec.Struct, frozen=True):
    restart: RestartPolicy = msgspec.field(default_factory=RestartPolicy)
    start_timeout: float = 30.0
    stop_grace: float = 5.0
    kill_retry: float = 2.0
    lazy: bool = False
    idle_timeout: float | None = None


class Step(msgspec.Struct, frozen=True):
    state: ServerState
    effects: tuple[Effect, ...] = ()
    reason: str = ""
