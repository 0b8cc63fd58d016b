"""What every contender can be told to do; the worker turns commands into these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.load import LONGEST

ECHO_SERVER = Path(__file__).with_name("echo_server.py")
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "floor", "version": "1"},
}
"""How those greet a server who hold its pipes themselves."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which servers a contender is to have."""

    python: str
    """What runs the servers."""
    servers: int
    tools: int
    stubborn: bool = False
    socket: str = ""
    """Where the daemon listens that has them."""
    stop_grace: float = 5.0
    port: int = 0
    """Where the peer listens that has them."""
    mark: str = ""
    """What tells a peer's servers from all others."""
    brood: bool = False
    """Whether each server has a descendant that left its group, its session and its parent."""
    urls: Sequence[str] = ()
    """Where the servers are, when they are not to be started."""
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The entries of servers that nobody calls; only the daemon has those."""

    @property
    def command(self) -> list[str]:
        """How one of the servers is started."""
        options = ["--stubborn"] if self.stubborn else []
        options += ["--brood"] if self.brood else []
        options += [f"--mark={self.mark}"] if self.mark else []
        return [self.python, "-I", "-S", str(ECHO_SERVER), *options, str(self.tools)]


class Contender(Protocol):
    async def open(self) -> None:
        """Have every server up and its tools listed."""
        ...

    async def close(self) -> None:
        """Take down what `open` brought up."""
        ...

    async def in_turn(
        self, tool: str, arguments: Mapping[str, Any], times: int, longest: int = LONGEST
    ) -> list[int]:
        """Nanoseconds that each call to the first server took, the last one begun within `longest`."""
        ...

    async def at_once(self, servers: int, in_flight: int, times: int) -> tuple[int, int]:
        """How many calls, spread over the first `servers`, were made, and the nanoseconds they took."""
        ...

    async def listings(self, times: int) -> list[int]:
        """Nanoseconds that each listing of all tools took."""
        ...

    async def text(self, server: int, tool: str) -> str:
        """What a tool without arguments says."""
        ...

    async def death(self, server: int, pid: int) -> int:
        """Nanoseconds from the SIGKILL of a server to the error of the call that it was busy with."""
        ...


class WithStatus(Protocol):
    """A contender that says which of its servers are connected."""

    async def noticed(self, server: int, pid: int) -> int:
        """Nanoseconds from the SIGKILL of an idle server until its status is no longer `connected`."""
        ...
