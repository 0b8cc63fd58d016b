"""All contenders side by side, each with the same kind of fleet, ready to be measured in turn."""

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from bench.contender import Fleet
from bench.figures import FLOOR, RELAY, SDK, Compared
from bench.gateway import Daemon, Gateway, Peer, RelayServer, free_port
from bench.peers import PEERS
from bench.processes import Stuck
from bench.telling import Worker

LIBRARY = "client"
BEFORE_DAEMON = ("plain", "thin", LIBRARY)
"""Clients of our daemon, the thinnest first: it stands for the daemon where one is enough."""
_JUDGED_BY = (FLOOR, SDK, *PEERS)


def compared(names: Iterable[str]) -> list[Compared]:
    """Whose ratios are judged, together with how far chance may have moved them: the thinnest client's."""
    present = set(names)
    ours = next((name for name in BEFORE_DAEMON if name in present), None)
    return [] if ours is None else [(ours, other) for other in _JUDGED_BY if other in present]


def fleet_of(servers: int, *, tools: int = 4, stubborn: bool = False, stop_grace: float = 5.0) -> Fleet:
    return Fleet(sys.executable, servers, tools, stubborn, stop_grace=stop_grace)


@dataclass(frozen=True, slots=True)
class Entrant:
    """One contender that is up."""

    name: str
    worker: Worker
    gateway: Gateway | None
    """What the worker calls, when it does not hold the servers itself."""
    opened_after: float
    """Seconds from the start of the program that holds the servers to all tools listed."""
    ground: "Ground"

    @property
    def holder(self) -> int:
        """The process that holds the servers' pipes."""
        return self.worker.pid if self.gateway is None else self.gateway.pid

    @property
    def out(self) -> bool:
        """Whether it was given up."""
        return self.name in self.ground.out

    def ask(self, command: str, /, **options: Any) -> Any:
        return self.worker.ask(command, **options)

    def excused(self, figure: str) -> AbstractContextManager[None]:
        return self.ground.excused(self.name, figure)

    def pids(self, servers: int) -> list[int]:
        """The processes of the first servers, as they say themselves."""
        return [int(self.ask("text", server=server, tool="pid")) for server in range(servers)]


@dataclass(frozen=True, slots=True)
class Ground:
    """Who takes part."""

    contenders: Sequence[str]
    program: Path
    """The daemon's."""
    out: set[str] = field(default_factory=set)
    """Peers that were given up in the suite under way."""
    notes: list[str] = field(default_factory=list)
    """Why which figures are missing, and what to know of others."""

    @contextmanager
    def excused(self, name: str, figure: str) -> Iterator[None]:
        """Give a peer up that fails at this figure; the failure of any other contender ends the benchmark."""
        try:
            yield
        except (Stuck, TimeoutExpired) as exc:
            if name not in PEERS:
                raise
            self.out.add(name)
            self.notes.append(f"{name}: no {figure}, nor what follows in its suite: {exc}")
            print(self.notes[-1], file=sys.stderr)

    @property
    def champion(self) -> str | None:
        """The client that stands for the daemon; None when it does not take part."""
        return next((name for name in BEFORE_DAEMON if name in self.contenders), None)

    def peers_lack(self, figure: str, reason: str) -> None:
        """Take note of a figure that no peer can have, if there are peers at all."""
        if not PEERS.keys().isdisjoint(self.contenders):
            self.notes.append(f"{figure}: not for peers: {reason}")

    def remark(self, text: str) -> None:
        """Take note, once, of what must be known to read some figures."""
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def field(self, fleet: Fleet, *, but: Sequence[str] = ()) -> Iterator[list[Entrant]]:
        """Every contender, `but` these, each with a fleet of its own."""
        entrants: list[Entrant] = []
        with ExitStack() as stack:
            for name in self.contenders:
                if name not in but:
                    with self.excused(name, "start"):
                        entrants.append(stack.enter_context(self.enter(name, fleet)))
            yield entrants

    @contextmanager
    def enter(self, name: str, fleet: Fleet) -> Iterator[Entrant]:
        """One contender with all its servers up and listed; everything is ended on the way out."""
        with ExitStack() as stack:
            if name in (RELAY, *BEFORE_DAEMON, *PEERS):
                worker, gateway, began = self._before_a_gateway(stack, name, fleet)
            else:
                began = time.monotonic()
                worker, gateway = stack.enter_context(Worker(name, fleet)), None
            worker.ask("open")
            yield Entrant(name, worker, gateway, time.monotonic() - began, self)

    def _before_a_gateway(self, stack: ExitStack, name: str, fleet: Fleet) -> tuple[Worker, Gateway, float]:
        """A client that is ready to connect, and the gateway just started; its time runs from there."""
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        fleet = replace(fleet, socket=str(directory / "control.sock"))
        if name in PEERS:
            fleet = replace(fleet, port=free_port(), mark=directory.name)
        worker = stack.enter_context(Worker(name, fleet))
        worker.ask("ready")
        began = time.monotonic()
        if name in PEERS:
            return worker, stack.enter_context(Peer(name, fleet, directory)), began
        if name == RELAY:
            return worker, stack.enter_context(RelayServer(fleet, directory)), began
        return worker, stack.enter_context(Daemon(self.program, fleet, directory)), began
