"""The loop does not sleep while a quick answer is awaited, and sleeps again when it has come or is late."""

import asyncio
from collections.abc import Callable

import anyio
import pytest

from supervisor.core.attention import PROOFS, QUICK
from supervisor.runtime.wakefulness import Wakefulness
from tests.runtime.support import LOOPS


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
        for _ in range(PROOFS):
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


def test_it_sleeps_when_the_word_has_come(loop: Loop) -> None:
    loop.prove()
    loop.expect()
    loop.hear()
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
    for _ in range(PROOFS + 1):
        late.came(QUICK / 2)
        late.expect(0.0)
    served = anyio.Event()
    running.call_soon(served.set)
    with anyio.fail_after(5):
        await served.wait()
        await anyio.sleep(0.001)
    late.came(0.0)
