"""`make soak`: a fleet lives through random trouble for SOAK seconds, and every promise is checked.

SOAK (600), SEED (random, and printed), SERVERS (50) are variables of the environment. Exits with 1 when a
promise was broken; the table and the sentences below it say which.
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.soak import oracle
from tests.soak.acts import Chaos
from tests.soak.callers import Caller
from tests.soak.world import World, inhabited

CALLERS = 4
ROUND = 10.0
"""Seconds of trouble between two moments of rest."""
PACE = 0.1
"""Seconds between two acts."""


class Soak:
    """One soak: trouble in rounds, a rest after each, and figures from the daemon throughout."""

    def __init__(self, world: World, *, seconds: float, seed: int) -> None:
        self._world, self._seconds = world, seconds
        self._before = self._warm_up()
        names = [name for name in world.entries if name != "crash"]
        self._chaos = Chaos(world, names, seed)
        self._callers = [Caller(world, names, seed + 1 + index) for index in range(CALLERS)]
        self._samples: list[tuple[float, int]] = []
        """What the daemon held at each rest, and when."""
        self._rounds = 0

    def _warm_up(self) -> oracle.Baseline:
        """Have everything happen once that is only paid for once, then count."""
        self._world.operator.result("supervisor/reload")
        oracle.baseline(self._world)
        for name in self._world.states():
            self._world.operator.reply("servers/start", server=name)
        before = oracle.baseline(self._world)
        for name in self._world.states():
            self._world.operator.reply("servers/start", server=name, wait=False)
        return before

    def run(self) -> Iterator[tuple[str, object]]:
        """The figures, line by line."""
        began, used = time.monotonic(), self._world.processor_seconds()
        while (left := began + self._seconds - time.monotonic()) > 0:
            self._trouble(min(ROUND, left))
            self._rest()
        took = time.monotonic() - began
        for caller in self._callers:
            caller.end()
        ends = sum((caller.ledger.ends for caller in self._callers), self._chaos.ends)
        oracle.compare_calls(self._world, ends, abandoned=self._chaos.abandoned)
        yield from self._figures(ends, took, (self._world.processor_seconds() - used) / took)

    def _trouble(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._chaos.act()
            time.sleep(PACE)

    def _rest(self) -> None:
        self._rounds += 1
        self._chaos.calm()
        for caller in self._callers:
            caller.pause()
        oracle.check_rest(self._world)
        self._samples.append((time.monotonic(), self._world.resident()))
        for caller in self._callers:
            caller.resume()

    def _figures(self, ends: Counter[str], took: float, load: float) -> Iterator[tuple[str, object]]:
        yield "seconds", f"{took:.0f}"
        yield "rounds, each checked at rest", self._rounds
        for act, number in sorted(self._chaos.done.items()):
            yield act, number
        yield "starts of servers", sum(state["run"] for state in self._world.states().values())
        yield "calls that ended", ends.total()
        for outcome, number in ends.most_common():
            yield f"  {outcome}", number
        yield "calls whose client left", self._chaos.abandoned
        warm = self._samples[len(self._samples) // 3 :]
        growth = warm[-1][1] - warm[0][1]
        yield "memory at each rest, MiB", " ".join(f"{held / 2**20:.0f}" for _, held in self._samples)
        yield "  growth after warm-up", f"{growth / 2**20:+.1f} MiB"
        yield "  slope", f"{oracle.slope(warm) * 60 / 2**20:+.2f} MiB a minute"
        if growth > oracle.MOST_GROWTH:
            self._world.broken.append(f"the daemon grew by {growth / 2**20:.0f} MiB after its warm-up")
        yield "processor", f"{load:.0%} of one"
        after = oracle.baseline(self._world)
        oracle.compare(self._world, self._before, after)
        yield "descriptors", f"{self._before.descriptors} -> {after.descriptors}"
        yield "tasks", f"{self._before.tasks:g} -> {after.tasks:g}"


def main() -> int:
    seconds = float(os.environ.get("SOAK") or 600)
    seed = int(os.environ.get("SEED") or random.randrange(1_000_000))
    number = int(os.environ.get("SERVERS") or 50)
    print(f"soak: {seconds:g} s, {number} servers; again with SEED={seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as directory,
        inhabited(Path(directory), number) as world,
    ):
        for label, figure in Soak(world, seconds=seconds, seed=seed).run():
            print(f"{label:32} {figure}", flush=True)
        world.daemon.end()
        print(f"{'left behind':32} {len(world.daemon.pids())} processes")
    for sentence in dict.fromkeys(world.broken):
        print(f"BROKEN: {sentence}", file=sys.stderr)
    return 1 if world.broken else 0


if __name__ == "__main__":
    sys.exit(main())
