"""What the rest of the daemon needs to know of a run, whatever carries it, and the run of what cannot run."""

from collections.abc import Callable, Sequence
from typing import Protocol

from supervisor.core.phases import End, Event
from supervisor.runtime.actor import Run
from supervisor.runtime.session import Session


class HopelessRun:
    """The run of a server that cannot be started as it is configured."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def live(self, report: Callable[[Event], None]) -> End:  # noqa: ARG002 - it has nothing to report
        return End(self.reason, hopeless=True)

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Talk(Protocol):
    """What is known of a conversation with a server, whatever carries it."""

    @property
    def session(self) -> Session: ...

    @property
    def noise(self) -> int: ...

    @property
    def timeline(self) -> Sequence[tuple[str, float]]: ...


class TalkingRun(Run, Protocol):
    """A run that has a server to talk with."""

    @property
    def talk(self) -> Talk: ...

    @property
    def pid(self) -> int | None:
        """The process, where there is one."""
        ...
