"""A whole daemon through random histories, beside a model of what must hold: edits, calls, kills, ends.

Here are the rules; what must hold is in `ground`.
"""

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from supervisor.errors import BadConfig, Outcome, ServerUnavailable
from supervisor.selftest.case import GOOD
from supervisor.selftest.lab import until
from supervisor.selftest.oracle import leftovers
from tests.e2e.support import Client, Json
from tests.files import save
from tests.fuzz.ground import NAMES, RULES, Ground, Stage, ends, says, some, tried
from tests.fuzz.laboratory import LONG, Laboratory
from tests.fuzz.model import CANCELLED, DOOMED, SOUND

EXAMPLES = max(int(os.environ.get("FUZZ", "0")) // 10, 20)
"""Histories; `make fuzz` plays more."""
MORE, MOST_ROUNDS = 5, 8
"""Histories that follow, and how often, until everything has been tried."""
STEPS = 30
ANSWERS: dict[str, tuple[str, Json]] = {
    "echo": ("ok", {"text": "well"}),
    "refuse": ("tool_error", {}),
    "twice": ("ok", {}),
    "shout": ("ok", {"bytes": 65536}),
    "chatter": ("ok", {"count": 200}),
}
"""What tools answer, and with which arguments."""
DEADLY = [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]
ENDS = {signal.SIGTERM: 0, signal.SIGINT: 0, signal.SIGKILL: -signal.SIGKILL}
"""What a daemon ends with."""


class Histories(Ground):
    """What can happen to a daemon, its file and its servers."""

    @initialize(data=st.data(), number=st.integers(2, 3))
    def begin(self, data: st.DataObject, number: int) -> None:
        self.failed = True
        self.lab.begin_journal()
        for name in NAMES[:number]:
            self.wanted[name] = self.drawn(data, SOUND)
        self.lab.reload(self.entries())

    # What people do to the file.

    @some(Ground.free)
    @rule(data=st.data(), how=st.sampled_from(["asked", "hung up", "saved", "not awaited"]))
    @tried
    def add(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(self.free()))
        self.wanted[name] = self.drawn(data, SOUND + DOOMED)
        self.apply(how, f"add {name}")
        self.wanted[name].unseen = how == "not awaited"

    @some(Ground.named)
    @rule(data=st.data(), how=st.sampled_from(["asked", "hung up", "saved", "not awaited"]))
    @tried
    def remove(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(self.named()))
        moving = self.wanted.pop(name).moving
        self.leaving.add(name)
        self.apply(how, "" if moving else f"remove {name}")

    @some(Ground.up)
    @rule(data=st.data(), how=st.sampled_from(["asked", "hung up", "saved"]))
    @tried
    def retune(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(self.up()))
        self.wanted[name].entry["callTimeout"] = 10 + next(self.stage.numbers)
        self.apply(how, f"retune {name}")

    @some(Ground.eager)
    @rule(data=st.data(), how=st.sampled_from(["asked", "hung up", "saved", "not awaited"]))
    @tried
    def renew(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(self.eager()))
        self.wanted[name].entry["env"] = {"VALUE": str(next(self.stage.numbers))}
        self.wanted[name].begin()
        self.apply(how, f"replace {name}")

    @rule()
    @tried
    def break_the_file(self) -> None:
        save(self.lab.config, '{"mcpServers": {"one": }')
        with pytest.raises(BadConfig):
            self.lab.client.request("supervisor/reload")
        self.lab.reload(self.entries())

    @rule()
    @tried
    def hang_up(self) -> None:
        """Nothing has changed, so nobody but we can be the reason that it is read again."""
        self.settle()
        written = self.lab.log.stat().st_size
        self.lab.signal(signal.SIGHUP)
        until(lambda: b"reloaded: " in self.reloads_since(written))

    # What people do to servers.

    @some(Ground.known)
    @rule(data=st.data(), verb=st.sampled_from(["start", "stop", "restart"]), wait=st.booleans())
    @tried
    def order(self, data: st.DataObject, verb: str, wait: bool) -> None:
        name = data.draw(st.sampled_from(self.known()))
        server = self.wanted[name]
        {"start": server.start, "stop": server.stop, "restart": server.begin}[verb]()
        self.stage.tried["waited for" if wait else "overtaken"] += 1
        try:
            self.lab.client.request(f"servers/{verb}", {"server": name, "wait": wait})
        except ServerUnavailable:
            assert server.doomed
        if wait and not server.doomed:
            assert server.difference(self.lab.client.server(name)) is None
        self.hurried = not wait

    @some(Ground.known)
    @rule(data=st.data(), tool=st.sampled_from(sorted(ANSWERS)))
    @tried
    def call(self, data: st.DataObject, tool: str) -> None:
        name = data.draw(st.sampled_from(self.known()))
        server, (answer, arguments) = self.wanted[name], ANSWERS[tool]
        outcome = self.outcome(name, tool, arguments, timeout=0.2 if server.deaf else 10)
        if server.moving:
            self.account.perhaps(tool)
            self.account.perhaps(CANCELLED)
            assert outcome in set(Outcome)
        elif server.deaf:
            self.account.perhaps(tool)
            self.account.perhaps(CANCELLED)
            assert outcome == "timed_out"
        elif server.phase in ("ready", "idle"):
            self.account.surely(tool)
            assert outcome == answer
            server.start()
        else:
            assert outcome in {"not_sent", "rejected"}

    @some(Ground.up)
    @rule(data=st.data(), number=st.integers(2, 6))
    @tried
    def call_at_once(self, data: st.DataObject, number: int) -> None:
        names = data.draw(st.lists(st.sampled_from([*self.up(), GOOD]), min_size=number, max_size=number))
        with Client(self.lab.socket) as client:
            asked = {
                client.ask("tools/call", name=f"{name}_echo", arguments=says(at)): at
                for at, name in enumerate(names)
            }
            answers = [client.receive() for _ in names]
        assert {each["id"]: each["result"]["content"][0]["text"] for each in answers} == {
            number: says(at)["text"] for number, at in asked.items()
        }
        self.account.surely("echo", len(names) - names.count(GOOD))

    @some(Ground.up)
    @rule(data=st.data(), number=st.integers(1, 3))
    @tried
    def leave_during_calls(self, data: st.DataObject, number: int) -> None:
        with Client(self.lab.socket) as client:
            self.hang(client, data, number)
        self.account.surely(CANCELLED, number)

    @some(Ground.up)
    @rule(data=st.data(), number=st.integers(1, 3))
    @tried
    def cancel_calls(self, data: st.DataObject, number: int) -> None:
        with Client(self.lab.socket) as client:
            _, asked = self.hang(client, data, number)
            for each in asked:
                client.notify("notifications/cancelled", requestId=each)
            assert ends(client, asked) == ["cancelled"] * number
        self.account.surely(CANCELLED, number)

    @some(Ground.up)
    @rule(data=st.data(), number=st.integers(1, 3))
    @tried
    def stop_during_calls(self, data: st.DataObject, number: int) -> None:
        with Client(self.lab.socket) as client:
            server, asked = self.hang(client, data, number)
            self.lab.client.request("servers/stop", {"server": server, "wait": False})
            self.wanted[server].stop()
            assert ends(client, asked) == ["unknown"] * number

    @some(Ground.up)
    @rule(data=st.data(), number=st.integers(1, 3))
    @tried
    def kill_during_calls(self, data: st.DataObject, number: int) -> None:
        with Client(self.lab.socket) as client:
            name, asked = self.hang(client, data, number)
            self.hit(name, signal.SIGKILL)
            self.wanted[name].fail()
            assert ends(client, asked) == ["unknown"] * number

    # What happens to servers.

    @some(Ground.up)
    @rule(data=st.data(), number=st.sampled_from(DEADLY))
    @tried
    def kill(self, data: st.DataObject, number: signal.Signals) -> None:
        name = data.draw(st.sampled_from(self.up()))
        self.hit(name, number)
        self.wanted[name].fail()

    @some(Ground.up)
    @rule(data=st.data(), end=st.sampled_from(["crash", "half", "shut"]))
    @tried
    def crash(self, data: st.DataObject, end: str) -> None:
        name = data.draw(st.sampled_from(self.up()))
        if "family" in self.wanted[name].manners:
            end = "crash"  # its stdout is not closed when it closes it
        assert self.outcome(name, end, {}) == ("ok" if end == "shut" else "unknown")
        self.account.surely(end)
        self.wanted[name].fail(clean=end == "half")

    @some(Ground.up)
    @rule(data=st.data())
    @tried
    def freeze(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.up()))
        self.hit(name, signal.SIGSTOP)
        assert self.outcome(name, "echo", {}, timeout=0.1) == "timed_out"
        self.hit(name, signal.SIGCONT)
        self.account.surely("echo")
        self.account.surely(CANCELLED)

    @some(Ground.up)
    @rule(data=st.data())
    @tried
    def be_silent(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.up()))
        assert self.outcome(name, "hang", {}, timeout=0.1) == "timed_out"
        self.account.surely("hang")
        self.account.surely(CANCELLED)

    @some(Ground.up)
    @rule(data=st.data())
    @tried
    def deafen(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.up()))
        assert self.outcome(name, "deafen", {}) == "ok"
        self.account.surely("deafen")
        self.wanted[name].deaf = True

    # What happens to the daemon.

    @precondition(lambda self: not self.ended and self.wanted)
    @rule()
    @tried
    def end_the_daemon(self) -> None:
        """By each signal in turn, once in a history: a start takes a while."""
        number = list(ENDS)[self.stage.tried["end_the_daemon"] % len(ENDS)]
        self.ended = True
        self.stage.tried[number.name] += 1
        old = self.lab.processes()
        self.lab.signal(number)
        until(lambda: self.lab.exit_status() is not None)
        assert self.lab.exit_status() == ENDS[number]
        self.lab.disconnect()
        if number != signal.SIGKILL:
            assert leftovers(self.lab) == []
        self.lab.start(self.entries())
        until(lambda: not old & self.lab.processes())
        self.good = self.pid_of(GOOD)
        self.leaving.clear()
        for each in self.wanted.values():
            each.begin(sleeps=not each.unseen)


WAYS = {
    *("asked", "hung up", "saved", "not awaited"),
    *("waited for", "overtaken"),
    *(number.name for number in ENDS),
}
"""What rules draw that must have been tried, too."""


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(Laboratory(tmp_path_factory.mktemp("histories"), {}) for _ in itertools.count())
    yield stage
    stage.close()


def play(stage: Stage, examples: int) -> set[str]:
    """Play so many histories; returns what has not been tried in any so far."""
    run_state_machine_as_test(
        lambda: Histories(stage),  # type: ignore[arg-type]  # it only has to make one
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        ),
    )
    return {*RULES, *WAYS} - stage.tried.keys()


@LONG
def test_a_daemon_keeps_its_promises_through_any_history(stage: Stage) -> None:
    untried = play(stage, EXAMPLES)
    for _ in range(MOST_ROUNDS):
        if untried:  # each history leaves some rules out, and all of them may have left out the same
            untried = play(stage, MORE)

    assert untried == set()
