"""What must become of each server, and how often each tool may have been called: a model of a fleet.

Knows nothing of the daemon. Whatever has been asked, a server comes to rest in one phase; until it has been
looked at there, nobody knows its process.
"""

import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from supervisor.selftest.lab import hostile

SOUND = ((), ("stubborn",), ("escape", "family"), ("babble",))
DOOMED = (("exit-3",), ("mute",), ("parrot",), ("endless",))
"""Manners of servers that never come up."""
IMPATIENCE: dict[tuple[str, ...], float] = {("mute",): 0.3, ("endless",): 2}
"""Seconds for which one that never comes up is waited for, where it does not say so by itself."""
POLICIES = ("never", "on-failure", "always")
CANCELLED = "notifications/cancelled"


def entry(manners: tuple[str, ...], policy: str, *, lazy: bool) -> dict[str, Any]:
    """What the file says of a server; only one that ends when it is told to gets the time for that."""
    doomed, polite = manners in DOOMED, manners in {(), ("babble",)}
    restart = {"policy": policy, "delay": 0.05, "maxDelay": 0.05, "maxFailures": 2 if doomed else 1000}
    limits = {"startTimeout": IMPATIENCE.get(manners, 10), "stopGrace": 10 if polite else 0.1}
    return {**hostile(*manners), **limits, "restart": restart, "start": "lazy" if lazy else "eager"}


@dataclass(slots=True)
class Server:
    """One server as it must be once nothing moves any more."""

    manners: tuple[str, ...]
    policy: str
    lazy: bool
    entry: dict[str, Any]
    phase: str = ""
    pid: int | None = None
    """None where there is no process, or where it is not known yet."""
    past: set[int] = field(default_factory=set[int])
    """Processes that it must not have any more."""
    deaf: bool = False
    moving: bool = True
    """Whether it may still be on its way there."""
    spared: bool = False
    """Whether it was told to end and needed nothing but its time for that."""
    sleeps: bool = False
    """Whether it may wait for a call there."""
    unseen: bool = False
    """Whether the daemon may not even know of it."""

    @property
    def doomed(self) -> bool:
        return self.manners in DOOMED

    @property
    def polite(self) -> bool:
        """Whether it ends when it is told to."""
        return self.manners in {(), ("babble",)} and not self.deaf

    @property
    def up(self) -> bool:
        """Whether it can be called, and by which process it is answered is known."""
        return self.phase == "ready" and not self.moving and not self.deaf

    def begin(self, *, sleeps: bool = False) -> None:
        """Be started, or started again; `sleeps` says that it may wait for a call instead."""
        self._change("unavailable" if self.doomed else "ready", spared=self.up and self.polite)
        self.sleeps = sleeps and self.lazy

    def stop(self) -> None:
        self._change("stopped", spared=self.up and self.polite)

    def fail(self, *, clean: bool = False) -> None:
        """End without being asked to; a clean end is none that `on-failure` speaks of."""
        again = self.policy == "always" or (self.policy == "on-failure" and not clean)
        self._change("ready" if again else "unavailable")

    def start(self) -> None:
        """Be wanted by somebody, which changes nothing for one that is up."""
        if self.phase != "ready":
            self.begin(sleeps=self.phase != "idle")

    def _change(self, phase: str, *, spared: bool = False) -> None:
        self.past |= set() if self.pid is None else {self.pid}
        self.phase, self.pid, self.deaf, self.moving, self.sleeps = phase, None, False, True, False
        self.spared = spared

    def difference(self, seen: dict[str, Any]) -> str | None:
        """What is not as it must be; takes up the process of one that is."""
        asleep = self.sleeps and self.moving and seen["phase"] == "idle"
        if seen["phase"] != self.phase and not asleep:
            return f"{seen['name']} is {seen['phase']} and not {self.phase}: {seen['reason']}"
        if self.spared and (seen["exit"] or {}).get("signal") == signal.SIGKILL:
            return f"{seen['name']} was killed at once: {seen['exit']['reason']}"
        if seen["pid"] in self.past or (seen["pid"] is None and seen["phase"] == "ready"):
            return f"{seen['name']} has still process {seen['pid']}"
        if not self.moving and seen["pid"] != self.pid:
            return f"{seen['name']} has process {seen['pid']}, and not {self.pid}"
        return None

    def rest(self, seen: dict[str, Any]) -> None:
        """Nothing moves any more."""
        self.phase, self.pid, self.moving, self.unseen = seen["phase"], seen["pid"], False, False


@dataclass(slots=True)
class Account:
    """How often the servers must have received each tool's call, and how often they may have."""

    least: Counter[str] = field(default_factory=Counter[str])
    most: Counter[str] = field(default_factory=Counter[str])

    def surely(self, what: str, count: int = 1) -> None:
        self.least[what] += count
        self.most[what] += count

    def perhaps(self, what: str, count: int = 1) -> None:
        self.most[what] += count

    def difference(self, heard: Counter[str]) -> str | None:
        """What was heard too often, or not yet."""
        more, less = heard - self.most, self.least - heard
        return f"heard too often: {dict(more)}, too rarely: {dict(less)}" if more or less else None
