"""`make soak`: a fleet lives through trouble, and every promise is checked, at each rest and at the end.

Variables of the environment choose: SOAK (600) seconds of random trouble; or KILLS, so many times that a
server is killed and comes back; or CALLS, so many calls. SEED (random, and printed) and SERVERS (50) go with
each. Exits with 1 when a promise was broken; the table and the sentences below it say which.
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from supervisor.core.latency import KEPT
from tests.soak import oracle
from tests.soak.growth import Holdings
from tests.soak.works import Calls, KillCycles, RandomTrouble, Work
from tests.soak.world import CRASHING, World, inhabited

STARTS_THAT_FILL = 3
"""After so many, what a noisy server writes at each has filled the lines that are kept of it."""
FEW = 20
"""Broken promises that are told one by one, of the first and of the last."""


class Soak:
    """One soak: trouble in rounds, a rest after each, and figures from the daemon throughout."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._present: Counter[str] = Counter()
        """How the roll calls ended."""
        self._before = self._warm_up()

    def _warm_up(self) -> oracle.Baseline:
        """Have everything happen once that is only paid for once, then count."""
        self._world.operator.result("supervisor/reload")
        oracle.baseline(self._world)
        self._world.start_all()
        self._world.operator.reply("servers/start", server=CRASHING)
        before = oracle.baseline(self._world)
        for name in self._world.states():
            self._world.operator.reply("servers/start", server=name, wait=False)
        self._fill()
        return before

    def _fill(self) -> None:
        """Have the daemon keep all that it keeps of each server by design, or its growth would show first."""
        for name in self._world.noisy_names * STARTS_THAT_FILL:
            self._world.operator.result("servers/restart", server=name)
        self._world.start_all()
        for _ in range(KEPT):
            self._present += oracle.roll_call(self._world, self._everybody)

    @property
    def _everybody(self) -> list[str]:
        return [*self._world.names, *self._world.remote_names]

    def run(self, work: Work) -> Iterator[tuple[str, object]]:
        """The figures, line by line."""
        holdings = Holdings(self._world, most_memory=work.most_memory, warm_up=work.warm_up)
        began, used = time.monotonic(), self._world.processor_seconds()
        while not work.over:
            work.trouble()
            self._rest(work, holdings)
        took = time.monotonic() - began
        for caller in work.callers:
            caller.end()
        yield "seconds", f"{took:.0f}"
        yield "rounds, each checked at rest", holdings.rests
        yield from work.figures()
        yield "starts of servers", sum(state["run"] for state in self._world.states().values())
        yield from self._calls(work)
        yield "processor", f"{(self._world.processor_seconds() - used) / took:.0%} of one"
        yield from holdings.figures(work.done, work.yardstick)
        yield from self._left()

    def _rest(self, work: Work, holdings: Holdings) -> None:
        for caller in work.callers:
            caller.pause()
        work.calm()
        oracle.check_rest(self._world)
        self._present += oracle.roll_call(self._world, self._everybody)
        holdings.sample_memory(work.done)
        # A call closes the connections that were kept open for too long; how many there are is chance.
        self._present += oracle.roll_call(self._world, self._world.remote_names)
        holdings.sample_counts(work.done)
        for caller in work.callers:
            caller.resume()

    def _calls(self, work: Work) -> Iterator[tuple[str, object]]:
        ends = work.ends + self._present
        oracle.compare_calls(self._world, ends, abandoned=work.abandoned)
        yield "calls that ended", ends.total()
        for outcome, number in ends.most_common():
            yield f"  {outcome}", number
        yield "calls whose client left", work.abandoned

    def _left(self) -> Iterator[tuple[str, object]]:
        after = oracle.baseline(self._world)
        oracle.compare(self._world, self._before, after)
        yield "descriptors", f"{self._before.descriptors} -> {after.descriptors}"
        yield "tasks", f"{self._before.tasks:g} -> {after.tasks:g}"
        yield "orphans at rest", self._world.orphans
        yield "zombies at rest", self._world.undead


def chosen(world: World, seed: int) -> Work:
    """What the environment asks for."""
    if kills := os.environ.get("KILLS"):
        return KillCycles(world, number=int(kills), seed=seed)
    if calls := os.environ.get("CALLS"):
        return Calls(world, number=int(calls), seed=seed)
    return RandomTrouble(world, seconds=float(os.environ.get("SOAK") or 600), seed=seed)


def abridged(sentences: list[str]) -> list[str]:
    """The first and the last of many, and how many there are between them."""
    if len(sentences) <= 2 * FEW:
        return sentences
    return [*sentences[:FEW], f"and {len(sentences) - 2 * FEW} more promises", *sentences[-FEW:]]


def main() -> int:
    seed = int(os.environ.get("SEED") or random.randrange(1_000_000))
    number = int(os.environ.get("SERVERS") or 50)
    print(f"soak: {number} servers and some over HTTP; again with SEED={seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as directory,
        inhabited(Path(directory), number) as world,
    ):
        soak = Soak(world)
        for label, figure in soak.run(chosen(world, seed)):
            print(f"{label:32} {figure}", flush=True)
        world.daemon.end()
        print(f"{'left behind':32} {len(world.daemon.pids())} processes")
    for sentence in abridged(list(dict.fromkeys(world.broken))):
        print(f"BROKEN: {sentence}", file=sys.stderr)
    return 1 if world.broken else 0


if __name__ == "__main__":
    sys.exit(main())
