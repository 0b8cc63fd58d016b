"""The loop does not sleep while a quick answer is awaited, and sleeps again when it has come or is late."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from supervisor.core.attention import QUICK
from supervisor.runtime.wakefulness import Wakefulness
from tests.runtime.control_support import controlled
from tests.runtime.fleet_support import Build
from tests.runtime.support import LOOPS, PATIENCE, until
from tests.runtime.test_wire import Asker, Server


class Loop:
    """What is to be called in the next turn, and a clock that only we turn."""

    def __init__(self) -> None:
        self.now = 100.0
        self._next: list[Callable[[], None]] = []
        self.awake = Wakefulness(self._next.append, lambda: self.now)

    @property
    def sleeps(self) -> bool:
        return not self._next

    def turn(self, takes: float = QUICK / 10) -> None:
        self.now += takes
        due = self._next.copy()
        self._next.clear()
        for callback in due:
            callback()

    def expect(self) -> None:
        self.awake.expect(self.now)

    def hear(self, after: float = QUICK / 2) -> None:
        self.now += after
        self.awake.came(self.now)

    def prove(self) -> None:
        self.expect()
        self.hear()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_it_sleeps_while_it_waits_for_somebody_unknown(loop: Loop) -> None:
    loop.expect()

    assert loop.sleeps


def test_it_is_awake_while_it_waits_for_whoever_was_quick(loop: Loop) -> None:
    loop.prove()
    loop.expect()
    loop.turn()

    assert not loop.sleeps


def test_it_gives_way_between_two_looks(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    gave_way: list[bool] = []
    monkeypatch.setattr("os.sched_yield", lambda: gave_way.append(True))
    loop.prove()
    loop.expect()
    loop.turn()
    loop.turn()

    assert gave_way == [True, True]


def test_it_sleeps_when_the_word_has_come(loop: Loop) -> None:
    loop.prove()
    loop.expect()
    loop.hear()
    loop.turn()

    assert loop.sleeps


def test_it_sleeps_when_there_is_more_to_do(loop: Loop) -> None:
    loop.prove()
    loop.expect()
    loop.awake.expect_nothing(loop.now)
    loop.turn()

    assert loop.sleeps


def test_it_sleeps_when_the_word_is_late(loop: Loop) -> None:
    loop.prove()
    loop.expect()
    loop.turn()
    loop.turn(QUICK)

    assert loop.sleeps


def test_it_looks_once_a_turn_however_often_a_word_is_awaited(loop: Loop) -> None:
    loop.prove()
    looks = []
    for _ in range(3):
        loop.expect()
        loop.hear(QUICK / 100)
        loop.expect()
        looks.append(len(loop._next))
        loop.turn()

    assert looks == [1, 1, 1]


@pytest.mark.usefixtures("nothing_left")
@LOOPS
async def test_others_are_served_meanwhile() -> None:
    running = asyncio.get_running_loop()
    late = Wakefulness(running.call_soon, lambda: 0.0)
    for _ in range(2):
        late.came(QUICK / 2)
        late.expect(0.0)
    served = anyio.Event()
    running.call_soon(served.set)
    with anyio.fail_after(5):
        await served.wait()
        await anyio.sleep(0.001)
    awake = late._looking
    late.came(0.0)

    assert awake


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> set[Wakefulness]:
    """Those for whom the loop is awake; on a busy machine nobody is quick, so here everybody is."""
    monkeypatch.setattr("supervisor.core.attention.QUICK", PATIENCE)
    seen: set[Wakefulness] = set()
    look = Wakefulness._look

    def noted(self: Wakefulness) -> None:
        seen.add(self)
        look(self)

    monkeypatch.setattr(Wakefulness, "_look", noted)
    return seen


@pytest.mark.usefixtures("nothing_left")
@LOOPS
async def test_a_quick_client_and_a_quick_server_are_waited_for(
    build: Build, tmp_path: Path, looks: set[Wakefulness]
) -> None:
    path = tmp_path / "control.sock"
    async with controlled(build, path):
        reader, writer = await asyncio.open_unix_connection(str(path))

        async def say(method: str, params: dict[str, object] | None = None) -> None:
            line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
            writer.write(json.dumps(line).encode() + b"\n")

        for asked in (say("supervisor/ping"), say("supervisor/ping")):
            await asked
            await reader.readline()
        await until(lambda: len(looks) == 1)
        await say("tools/call", {"name": "fake_echo"})
        await reader.readline()
        await say("tools/call", {"name": "fake_sleep", "arguments": {"seconds": 60}})
        await until(lambda: len(looks) == 2)
        writer.close()


def test_a_server_that_is_asked_many_things_is_not_waited_for(loop: Loop) -> None:
    server = Server()
    server.wire.attach(server, loop.awake)
    loop.prove()
    seen = []
    for _ in range(3):
        server.wire.call(b'"tool"', msgspec.Raw(b"{}"), b"", Asker())
        loop.turn()
        seen.append(loop.sleeps)

    assert seen == [False, True, True]
