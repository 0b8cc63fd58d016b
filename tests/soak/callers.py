"""Clients that call without pause, each on its own connection and thread, and keep account of every call."""

import threading
from collections import Counter
from random import Random
from typing import Any

from tests.e2e.support import Client
from tests.soak.world import World

TROUBLE = {"rejected", "not_sent", "unknown", "timed_out", "cancelled"}
"""How a call ends that something came over."""
OWN_ENDS = {"error": "tool_error", "rpc_error": "tool_error", "crash": "unknown"}
"""How a call of these tools ends when nothing comes over it; of all others it ends well."""
Repertoire = tuple[tuple[str, dict[str, Any], int], ...]
"""What is called, with which arguments, and how often in a hundred."""
ROUGH: Repertoire = (
    ("echo", {"text": "hello"}, 60),
    ("sleep", {"seconds": 0.05}, 20),
    ("big", {"bytes": 100_000}, 8),
    ("error", {}, 5),
    ("rpc_error", {}, 5),
    ("crash", {"code": 3}, 1),
    ("crash", {"signal": "SIGKILL"}, 1),
)
SMOOTH: Repertoire = (
    ("echo", {"text": "hello"}, 80),
    ("big", {"bytes": 100_000}, 10),
    ("error", {}, 5),
    ("rpc_error", {}, 5),
)
"""What every server survives."""
REMOTE: Repertoire = (("echo", {"text": "hello"}, 80), ("wait", {"seconds": 0.05}, 20))
"""What HTTP servers have."""


class Ledger:
    """The calls of one connection: each is answered once, by one outcome that it may have."""

    def __init__(self, client: Client, broken: list[str], *, troubled: bool) -> None:
        self.client, self._broken, self._troubled = client, broken, troubled
        self._open: dict[int, str] = {}
        self.ends: Counter[str] = Counter()
        self.ended = 0

    def ask(self, tool: str, arguments: dict[str, Any]) -> None:
        self._open[self.client.ask("tools/call", name=tool, arguments=arguments)] = tool

    def settle(self) -> None:
        """Read until every call has ended; then nothing more may come."""
        while self._open:
            self._take(self.client.receive())
        number = self.client.ask("supervisor/ping")
        answer = self.client.receive()
        if answer.get("id") != number:
            self._broken.append(f"an answer that nobody waited for: {str(answer)[:200]}")

    def _take(self, answer: dict[str, Any]) -> None:
        tool = self._open.pop(answer["id"], None)
        outcome = outcome_of(answer)
        self.ends[outcome] += 1
        self.ended += 1
        if tool is None:
            self._broken.append(f"a second answer: {str(answer)[:200]}")
        elif not may_end(tool.partition("_")[2], outcome, troubled=self._troubled):
            self._broken.append(f"a call of {tool} ended {outcome}: {str(answer)[:200]}")


def may_end(tool: str, outcome: str, *, troubled: bool) -> bool:
    """Whether a call of this tool may end so; only where there is trouble can something come over it."""
    return outcome == OWN_ENDS.get(tool, "ok") or (troubled and outcome in TROUBLE)


def outcome_of(answer: dict[str, Any]) -> str:
    match answer:
        case {"result": {"isError": True}}:
            return "tool_error"
        case {"result": _}:
            return "ok"
        case {"error": {"code": -32050}}:
            return "tool_error"  # the server's own error passes as it is, and is counted so
        case {"error": {"data": {"outcome": str(outcome)}}}:
            return outcome
        case _:
            return "none"


class Caller:
    """One client that calls random tools of random servers, some at a time, while it is not told to pause."""

    def __init__(
        self, world: World, repertoire: Repertoire, seed: int, *, at_once: int = 8, troubled: bool = True
    ) -> None:
        self._random, self._at_once = Random(seed), at_once
        self._targets = [(name, repertoire) for name in world.names]
        self._targets += [(remote.name, REMOTE) for remote in world.remotes]
        self.ledger = Ledger(world.daemon.connect(), world.broken, troubled=troubled)
        self._world = world
        self._go, self._resting, self._over = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._go.set()
        self._thread.start()

    def pause(self) -> None:
        """Ask for no more, and wait until all that was asked has ended."""
        self._go.clear()
        if not self._resting.wait(120):
            self._world.broken.append("a caller still waits for its calls after two minutes")

    def resume(self) -> None:
        self._resting.clear()
        self._go.set()

    def end(self) -> None:
        self._over = True
        self._go.set()
        self._thread.join(120)
        self.ledger.client.close()

    def _run(self) -> None:
        try:
            while not self._over:
                for _ in range(self._at_once):
                    self._ask()
                self.ledger.settle()
                if not self._go.is_set():
                    self._resting.set()
                    self._go.wait(120)
        except (AssertionError, OSError) as exc:
            self._world.broken.append(f"a caller was cut off: {type(exc).__name__}: {exc}")
            self._resting.set()

    def _ask(self) -> None:
        server, repertoire = self._random.choice(self._targets)
        tool, arguments, _ = self._random.choices(repertoire, [weight for *_, weight in repertoire])[0]
        self.ledger.ask(f"{server}_{tool}", arguments)
