"""A whole daemon through random histories, beside a model of what must hold: edits, calls, kills, signals."""

import os
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from supervisor.errors import BadConfig, SupervisorError
from supervisor.selftest.case import GOOD, INNOCENTS
from supervisor.selftest.lab import Lab, hostile, outcome_of, until
from supervisor.selftest.oracle import contradictions, leftovers
from tests.files import save

EXAMPLES = max(int(os.environ.get("FUZZ", "40")) // 10, 4)
NAMES = ("one", "two", "three")
MANNERS = ((), ("stubborn",), ("escape", "family"), ("babble",))
names = st.sampled_from(NAMES)


class Histories(RuleBasedStateMachine):
    """`wanted` is what the file says, `up` is who can answer."""

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        self.wanted: dict[str, dict[str, Any]] = {}
        self.up: dict[str, int] = {}
        """Who can answer, by the process that does."""

    @initialize()
    def begin(self) -> None:
        directory = self.cleanup.enter_context(tempfile.TemporaryDirectory(dir="/tmp", prefix="mcp-fuzz-"))
        self.lab = Lab(Path(directory))
        self.cleanup.callback(self.lab.destroy)
        self.lab.start(INNOCENTS)
        self.good = self.pid(GOOD)

    def teardown(self) -> None:
        with self.cleanup:
            if hasattr(self, "lab"):
                assert self.lab.end() == 0
                assert leftovers(self.lab) == []

    # What people do to the file.

    @rule(name=names, manners=st.sampled_from(MANNERS))
    def add(self, name: str, manners: tuple[str, ...]) -> None:
        if name not in self.wanted:
            self.wanted[name] = {**hostile(*manners), "stopGrace": 0.1}
            self.apply()
            self.up[name] = self.pid(name)

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.wanted.pop(name, None)
        self.up.pop(name, None)
        self.apply()

    @rule(name=names, seconds=st.integers(5, 50))
    def retune(self, name: str, seconds: int) -> None:
        if name in self.wanted:
            self.wanted[name]["callTimeout"] = seconds
            self.apply()

    @rule(name=names, value=st.text("abc", min_size=1, max_size=2))
    def replace(self, name: str, value: str) -> None:
        if name in self.up:
            self.wanted[name]["env"] = {"VALUE": value}
            self.apply()
            self.up[name] = self.pid(name)

    @rule()
    def break_the_file(self) -> None:
        save(self.lab.config, '{"mcpServers": {"one": }')
        try:
            self.lab.client.request("supervisor/reload")
        except BadConfig:
            self.lab.write({**INNOCENTS, **self.wanted})
            self.lab.client.request("supervisor/reload")
        else:
            raise AssertionError("a broken file was accepted")

    def apply(self) -> None:
        self.lab.reload({**INNOCENTS, **self.wanted})

    # What people do to servers.

    @rule(name=names)
    def stop(self, name: str) -> None:
        if name in self.wanted:
            self.lab.client.request("servers/stop", {"server": name})
            self.up.pop(name, None)

    @rule(name=names, verb=st.sampled_from(["start", "restart"]))
    def start(self, name: str, verb: str) -> None:
        if name in self.wanted:
            self.lab.client.request(f"servers/{verb}", {"server": name})
            before, self.up[name] = self.up.get(name), self.pid(name)
            assert (self.up[name] == before) == (verb == "start" and before is not None)

    @rule(name=names)
    def call(self, name: str) -> None:
        allowed = {"ok"} if name in self.up else {"not_sent", "rejected"}
        assert self.outcome(name, "echo") in allowed

    # What happens to servers.

    @precondition(lambda self: self.up)
    @rule(data=st.data(), number=st.sampled_from([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]))
    def kill(self, data: st.DataObject, number: signal.Signals) -> None:
        name = data.draw(st.sampled_from(sorted(self.up)))
        pid = self.up.pop(name)
        assert pid > 1
        os.kill(pid, number)
        until(lambda: self.state(name) == "unavailable")

    @precondition(lambda self: self.up)
    @rule(data=st.data(), tool=st.sampled_from(["crash", "half"]))
    def crash(self, data: st.DataObject, tool: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.up)))
        self.up.pop(name)
        assert self.outcome(name, tool) == "unknown"
        until(lambda: self.state(name) == "unavailable")

    @precondition(lambda self: self.up)
    @rule(data=st.data())
    def freeze(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.up)))
        os.kill(self.up[name], signal.SIGSTOP)
        assert self.outcome(name, "echo", timeout=0.1) == "timed_out"
        os.kill(self.up[name], signal.SIGCONT)

    @rule()
    def hang_up(self) -> None:
        self.lab.signal(signal.SIGHUP)

    # What must hold.

    @invariant()
    def everybody_is_as_the_model_says(self) -> None:
        if not hasattr(self, "lab"):
            return
        assert self.lab.exit_status() is None
        assert self.outcome(GOOD, "echo") == "ok"
        assert self.pid(GOOD) == self.good
        servers = {each["name"]: each for each in self.lab.client.servers()}
        assert set(servers) == {GOOD, *self.wanted}
        assert {name: servers[name]["pid"] for name in self.up} == self.up
        assert {name for name in self.wanted if servers[name]["state"] == "connected"} == set(self.up)

    @invariant()
    def everybody_says_the_same(self) -> None:
        if hasattr(self, "lab"):
            assert contradictions(self.lab) == []

    # How it is asked.

    def pid(self, name: str) -> int:
        pid: int = self.lab.client.server(name)["pid"]
        return pid

    def state(self, name: str) -> str:
        return str(self.lab.client.server(name)["state"])

    def outcome(self, name: str, tool: str, *, timeout: float = 10) -> str:
        try:
            self.lab.client.call(f"{name}_{tool}", {}, timeout=timeout)
        except SupervisorError as error:
            return outcome_of(error)
        return "ok"


def test_a_daemon_keeps_its_promises_through_any_history() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        ),
    )
