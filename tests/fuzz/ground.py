"""The ground on which histories of a daemon are played: the daemon, the model beside it, and what must hold.

Which rules there are is not known here. One daemon after the other lives through many histories, after each
of which it has nothing but the innocent server, and must be as it was before.
"""

import functools
import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition

from supervisor.errors import SupervisorError
from supervisor.selftest.case import GOOD, INNOCENTS
from supervisor.selftest.lab import TooLate, outcome_of, until
from supervisor.selftest.oracle import Baseline, aftermath, baseline, contradictions
from tests.e2e.support import Client, Json
from tests.fuzz.laboratory import Laboratory
from tests.fuzz.model import CANCELLED, DOOMED, POLICIES, Account, Server, entry

NAMES = ("one", "two", "three", "four")
RULES = set[str]()
"""Every rule, by its name."""


class Stage:
    """The daemon that one history after the other uses, and what was tried in all of them."""

    def __init__(self, directories: Iterator[Laboratory]) -> None:
        self._laboratories = directories
        self.lab: Laboratory | None = None
        self.before: Baseline | None = None
        self.tried = Counter[str]()
        self.numbers = itertools.count()

    def ready(self) -> Laboratory:
        """The laboratory with nothing in it but the innocent server; a new one after a failure."""
        if self.lab is None:
            self.lab = next(self._laboratories)
            self.lab.start(INNOCENTS)
            self.before = baseline(self.lab)
        return self.lab

    def close(self) -> None:
        if self.lab is not None:
            self.lab.destroy()
            self.lab = None


def tried(act: Callable[..., None]) -> Callable[..., None]:
    """Count the rule when it has done what it is for."""

    @functools.wraps(act)
    def counted(self: "Ground", **drawn: Any) -> None:
        self.failed = True
        act(self, **drawn)
        self.failed = False
        self.stage.tried[act.__name__] += 1

    RULES.add(act.__name__)
    return counted


def some(found: "Callable[[Ground], list[str]]") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Only where there is such a server; the rule draws one by itself."""
    return precondition(lambda self: bool(found(self)))


class Ground(RuleBasedStateMachine):
    """`wanted` is what the file says, with what must become of each server."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.lab = stage.ready()
        self.good = self.pid_of(GOOD)
        self.wanted: dict[str, Server] = {}
        self.leaving: set[str] = set()
        """Servers that are no more in the file, which the daemon may not have noticed."""
        self.account = Account()
        self.hurried = False
        """Whether the next rule is to come while things are moving."""
        self.ended = self.failed = False

    def teardown(self) -> None:
        try:
            if not self.failed:
                self.finish()
        except BaseException:
            self.failed = True
            raise
        finally:
            if self.failed:
                self.stage.close()

    def finish(self) -> None:
        """Take everything away, and compare."""
        before = self.stage.before
        assert before is not None
        self.settle()
        self.lab.reload(INNOCENTS)
        until(lambda: len(self.lab.processes()) == 1)
        assert aftermath(self.lab, replace(before, processes=self.lab.processes())) == []
        assert self.lab.internal_errors() == []
        assert self.account.difference(self.heard()) is None

    # Who is there.

    def known(self) -> list[str]:
        return sorted(name for name, each in self.wanted.items() if not each.unseen)

    def up(self) -> list[str]:
        return sorted(name for name, each in self.wanted.items() if each.up)

    def eager(self) -> list[str]:
        return [name for name in self.up() if not self.wanted[name].lazy]

    def free(self) -> list[str]:
        return sorted(set(NAMES) - self.wanted.keys() - self.leaving)

    def named(self) -> list[str]:
        return sorted(self.wanted)

    # What rules are made of.

    def drawn(self, data: st.DataObject, manners: tuple[tuple[str, ...], ...]) -> Server:
        temper, policy = data.draw(st.sampled_from(manners)), data.draw(st.sampled_from(POLICIES))
        lazy = temper not in DOOMED and data.draw(st.booleans())
        server = Server(temper, policy, lazy, entry(temper, policy, lazy=lazy))
        server.entry["env"] = {"VALUE": str(next(self.stage.numbers))}
        server.begin()
        return server

    def apply(self, how: str, change: str) -> None:
        """Have the file taken up, asked for or not; the log says what was done."""
        written = self.lab.log.stat().st_size
        self.stage.tried[how] += 1
        self.lab.write(self.entries())
        match how:
            case "asked":
                self.lab.client.request("supervisor/reload")
            case "hung up":
                self.lab.signal(signal.SIGHUP)
            case "not awaited":
                self.hurried = True
                return
            case _:
                """It is watched."""
        until(lambda: change.encode() in self.reloads_since(written))

    def entries(self) -> dict[str, Any]:
        return {**INNOCENTS, **{name: each.entry for name, each in self.wanted.items()}}

    def reloads_since(self, written: int) -> bytes:
        """What the log says of reloads after so many bytes."""
        with self.lab.log.open("rb") as log:
            log.seek(written)
            return b"".join(line for line in log if b"reloaded: " in line)

    def hang(self, client: Client, data: st.DataObject, number: int) -> tuple[str, list[int]]:
        """Have so many calls under way, which are not answered; returns whose they are, and their ids."""
        name, before = data.draw(st.sampled_from(self.up())), self.heard()["hang"]
        asked = [client.ask("tools/call", name=f"{name}_hang", arguments={}) for _ in range(number)]
        until(lambda: self.heard()["hang"] == before + number)
        self.account.surely("hang", number)
        return name, asked

    def hit(self, name: str, number: signal.Signals) -> None:
        pid = self.wanted[name].pid
        assert pid is not None
        assert pid > 1
        os.kill(pid, number)

    # What must hold.

    @invariant()
    def everybody_is_as_the_model_says(self) -> None:
        self.failed = True
        assert self.lab.exit_status() is None
        assert self.outcome(GOOD, "echo", {}) == "ok"
        assert self.pid_of(GOOD) == self.good
        if not self.hurried:
            self.settle()
        self.hurried = False
        self.failed = False

    @invariant()
    def everybody_says_the_same(self) -> None:
        still = all(not each.moving and each.phase != "idle" for each in self.wanted.values())
        now = self.stage.tried.total() % 4 == 0
        if now and still and not self.leaving:
            self.failed = True
            assert contradictions(self.lab) == []
            self.failed = False

    def settle(self) -> None:
        """Wait until everybody is as the model says, and take up what cannot be known before."""
        try:
            until(lambda: not self.differences())
        except TooLate:
            raise AssertionError(self.differences()) from None
        self.leaving.clear()

    def differences(self) -> list[str]:
        """What is not as it must be, or not yet; takes up how everybody is, once nobody moves any more."""
        seen = {each["name"]: each for each in self.lab.client.servers() if each["name"] != GOOD}
        if seen.keys() != self.wanted.keys():
            return [f"there are {sorted(seen)}"]
        pairs = [(server, seen[name]) for name, server in self.wanted.items()]
        found = [server.difference(each) for server, each in pairs] + [self.account.difference(self.heard())]
        if not any(found):
            for server, each in pairs:
                server.rest(each)
        return [each for each in found if each]

    # How it is asked.

    def pid_of(self, name: str) -> int:
        pid: int = self.lab.client.server(name)["pid"]
        return pid

    def heard(self) -> Counter[str]:
        """How often the servers have received what."""
        lines = self.lab.journal()
        return Counter(each for line in lines if (each := line.get("called") or told(line)) is not None)

    def outcome(self, name: str, tool: str, arguments: Json, *, timeout: float = 10) -> str:
        try:
            result = self.lab.client.call(f"{name}_{tool}", arguments, timeout=timeout)
        except SupervisorError as error:
            return outcome_of(error)
        return "tool_error" if result.get("isError") else "ok"


def told(line: Json) -> str | None:
    return CANCELLED if line.get("notified") == CANCELLED else None


def says(at: int) -> Json:
    return {"text": f"number {at}"}


def ends(client: Client, asked: list[int]) -> list[str]:
    """What each of the calls ended in; each ends once."""
    answers = [client.receive() for _ in asked]
    assert sorted(each["id"] for each in answers) == sorted(asked)
    return [each["error"]["data"]["outcome"] for each in answers]
