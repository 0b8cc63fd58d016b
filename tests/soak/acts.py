"""What is done to a fleet under soak: kills, orders, changed files, and clients that misbehave."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.e2e.support import Client, fake
from tests.soak.callers import Ledger
from tests.soak.world import World

FLOOD = 60
"""Calls in one write; the daemon lets a client have 64 under way."""


class Chaos:
    """Does one random thing at a time; the seed decides which and to whom."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._names, self._random = world, world.names, Random(seed)
        self.done: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.abandoned = 0
        """Calls whose client left before they ended."""
        self._slow: list[Client] = []
        self._changed: set[str] = set()
        self._acts: dict[str, tuple[Callable[[str], None], int]] = {
            "kill": (self._kill, 30),
            "kill of an HTTP server": (self._kill_remote, 5),
            "stop": (self._stop, 10),
            "restart": (self._restart, 15),
            "start": (self._start, 15),
            "reload": (self._reload, 6),
            "flood": (self._flood, 8),
            "slow client": (self._slow_client, 2),
            "client that leaves": (self._leave, 8),
            "bad bytes": (self._bad_bytes, 6),
        }

    def act(self) -> None:
        weights = [weight for _, weight in self._acts.values()]
        name = self._random.choices(list(self._acts), weights)[0]
        self.done[name] += 1
        self._acts[name][0](self._random.choice(self._names))

    def calm(self) -> None:
        """Undo what lasts: the slow clients, the changed files, the stopped servers."""
        for client in self._slow:
            client.close()
        self._slow.clear()
        self._world.write(self._world.entries)
        self._changed.clear()
        self._world.operator.result("supervisor/reload")
        self._world.start_all()

    def _kill(self, server: str) -> None:
        self._world.kill(self._world.states()[server]["pid"])

    def _kill_remote(self, _server: str) -> None:
        self._random.choice(self._world.remotes).replace()

    def _order(self, verb: str, server: str) -> None:
        self._world.operator.reply(f"servers/{verb}", server=server, wait=self._random.random() < 0.2)

    def _stop(self, server: str) -> None:
        self._order("stop", server)

    def _restart(self, server: str) -> None:
        self._order("restart", server)

    def _start(self, server: str) -> None:
        self._order("start", server)

    def _reload(self, server: str) -> None:
        """Change a server's launch, or change it back, and have another one come or go."""
        self._changed ^= {server, "extra"}
        entries = dict(self._world.entries)
        for name in self._changed - {"extra"}:
            entry = entries[name]
            entries[name] = {**entry, "env": {"SOAK": "changed"}}
        if "extra" in self._changed:
            entries["extra"] = fake("--grandchild", "setsid")
        self._world.write(entries)
        self._world.operator.reply("supervisor/reload")

    def _flood(self, server: str) -> None:
        """Many calls at once, all answered before anything else."""
        with Client(self._world.daemon.socket) as client:
            ledger = Ledger(client, self._world.broken, troubled=True)
            for _ in range(FLOOD):
                ledger.ask(f"{server}_echo", {"text": "x" * 500})
            ledger.settle()
            self.ends += ledger.ends

    def _slow_client(self, server: str) -> None:
        """One that asks for more than it reads; at most three at once."""
        client = Client(self._world.daemon.socket)
        with suppress(OSError):
            for _ in range(10):
                client.ask("tools/call", name=f"{server}_big", arguments={"bytes": 2_000_000})
        self.abandoned += 10
        self._slow.append(client)
        if len(self._slow) > 3:
            self._slow.pop(0).close()

    def _leave(self, server: str) -> None:
        with Client(self._world.daemon.socket) as client:
            for seconds in (0, 0.01, 3):
                client.ask("tools/call", name=f"{server}_sleep", arguments={"seconds": seconds})
        self.abandoned += 3

    def _bad_bytes(self, server: str) -> None:
        junk = (b"\xff\xfe\n", b"{" * 5000 + b"\n", b"[]\n", b'{"jsonrpc":"2.0","id":1,"method":"x"}\n')
        with Client(self._world.daemon.socket) as client:
            client.write(self._random.choice(junk))
            answer = json.loads(client.line() or b"{}")
            if "error" not in answer:
                self._world.broken.append(f"bad bytes were not answered with an error, but with {answer}")
