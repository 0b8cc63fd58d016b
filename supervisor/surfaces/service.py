"""What the methods of the control API work on, and the one who asks."""

import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from supervisor.core.servers import Loaded
from supervisor.runtime.bus import Bus
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.memory import Memory
from supervisor.runtime.reload import Reloader


class Service(Struct):
    """The running daemon, as far as it can be asked about and told."""

    fleet: Fleet
    bus: Bus
    reloader: Reloader
    memory: Memory
    socket: str
    pid: int
    started_at: float
    shut_down: Callable[[], None]
    began: float = field(default_factory=time.monotonic)
    """When the daemon started, by a clock that nobody sets."""

    @property
    def loaded(self) -> Loaded:
        """The configuration in force."""
        return self.reloader.loaded


class Caller(Protocol):
    """A connected client."""

    def follow(self, method: str) -> Callable[[bytes], None]:
        """A way to send this client notifications of that method; the oldest are lost when it is slow."""
        ...

    def on_leave(self, action: Callable[[], None]) -> None:
        """Have something done when the client is gone."""
        ...
