"""All contenders side by side, each with the same kind of fleet, ready to be measured in turn."""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.contender import Fleet
from bench.processes import Daemon, Worker

BEHIND_DAEMON = ("thin", "client")


def fleet_of(servers: int, *, tools: int = 4, stubborn: bool = False, stop_grace: float = 5.0) -> Fleet:
    return Fleet(sys.executable, servers, tools, stubborn, stop_grace=stop_grace)


@dataclass(frozen=True, slots=True)
class Entrant:
    """One contender that is up."""

    name: str
    worker: Worker
    daemon: Daemon | None
    opened_after: float
    """Seconds from the start of its first process to all tools listed."""

    @property
    def holder(self) -> int:
        """The process that holds the servers' pipes."""
        return self.worker.pid if self.daemon is None else self.daemon.pid

    def ask(self, command: str, /, **options: Any) -> Any:
        return self.worker.ask(command, **options)

    def pids(self, servers: int) -> list[int]:
        """The processes of the first servers, as they say themselves."""
        return [int(self.ask("text", server=server, tool="pid")) for server in range(servers)]


@dataclass(frozen=True, slots=True)
class Ground:
    """Who takes part."""

    contenders: Sequence[str]
    program: Path
    """The daemon's."""

    @contextmanager
    def field(self, fleet: Fleet, *, but: str = "") -> Iterator[list[Entrant]]:
        """Every contender, `but` one, each with a fleet of its own."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.enter(name, fleet)) for name in self.contenders if name != but]

    @contextmanager
    def enter(self, name: str, fleet: Fleet) -> Iterator[Entrant]:
        """One contender with all its servers up and listed; everything is ended on the way out."""
        with ExitStack() as stack:
            if name in BEHIND_DAEMON:
                worker, daemon, began = self._before_a_daemon(stack, name, fleet)
            else:
                began = time.monotonic()
                worker, daemon = stack.enter_context(Worker(name, fleet)), None
            worker.ask("open")
            yield Entrant(name, worker, daemon, time.monotonic() - began)

    def _before_a_daemon(self, stack: ExitStack, name: str, fleet: Fleet) -> tuple[Worker, Daemon, float]:
        """A client that is ready to connect, and the daemon just started; its time runs from there."""
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        fleet = replace(fleet, socket=str(directory / "control.sock"))
        worker = stack.enter_context(Worker(name, fleet))
        worker.ask("ready")
        began = time.monotonic()
        return worker, stack.enter_context(Daemon(self.program, fleet, directory)), began
