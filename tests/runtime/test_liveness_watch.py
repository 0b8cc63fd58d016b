"""The watch over a silent server, on a virtual clock: when it looks, when it asks, when it gives up."""

from typing import Literal

import anyio
import msgspec
import pytest
import trio
from trio.testing import MockClock

from supervisor.core.phases import End
from supervisor.runtime.liveness import Subject, Vigil, Watch
from supervisor.runtime.pulse import Pulse
from supervisor.runtime.wire import NotSent, Waiting

pytestmark = pytest.mark.anyio

INTERVAL = 10.0
Manner = Literal["answers", "refuses", "silent", "takes nothing", "lost", "not sent"]


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@pytest.fixture
def anyio_backend(clock: MockClock) -> tuple[str, dict[str, object]]:
    return "trio", {"clock": clock}


class Patient:
    """A server by script: how it meets a probe, and what its processes do."""

    def __init__(self, manner: Manner = "answers", *, known: bool = False) -> None:
        self.manner: Manner = manner
        self.began = anyio.current_time()
        self.heard_at = self.began
        self.probes: list[float] = []
        self.moves = self.frozen = False
        self.called_at: float | None = None
        self.vigil = Vigil(INTERVAL, called_at=lambda: self.called_at)
        self.watch = Watch(self.vigil, Subject(lambda: self.heard_at, self.probe, self.pulse, known))

    @property
    def age(self) -> float:
        return anyio.current_time() - self.began

    def probe(self, waiting: Waiting) -> None:
        self.probes.append(self.age)
        match self.manner:
            case "answers":
                waiting.answered(msgspec.Raw(b"{}"))
            case "refuses":
                waiting.refused(msgspec.Raw(b"{}"))
            case "takes nothing":
                raise NotSent("it does not read its standard input")
            case "lost":
                waiting.lost(End("broke off"))
            case "not sent":
                waiting.not_sent("asks to be let alone")
            case "silent":
                pass

    def pulse(self) -> Pulse:
        figure = b"%f" % (self.age if self.moves else 0.0)
        return Pulse(((1, (figure,), b""),), self.frozen)

    async def dies(self, *, within: float = 1000.0) -> str | None:
        """Why it is dead; None when it is not, after so many seconds."""
        with anyio.move_on_after(within):
            return await self.watch.death()
        return None


@pytest.mark.parametrize("manner", ["answers", "refuses"])
async def test_a_silent_server_is_asked_once_per_interval_and_lives(manner: Manner) -> None:
    patient = Patient(manner)

    assert await patient.dies(within=35.0) is None

    assert patient.probes == [0.0, 20.0, 30.0]


async def test_a_server_that_stops_answering_is_dead_an_interval_after_it_was_asked() -> None:
    patient = Patient(known=True, manner="silent")

    assert await patient.dies() == "did not answer a probe for 10 s"

    # Its processes are seen for the first time after one interval, and that they stood still after two.
    assert patient.probes == [20.0]
    assert patient.age == 30.0


async def test_a_server_is_alive_until_the_very_end_of_the_interval() -> None:
    patient = Patient(known=True, manner="silent")

    assert await patient.dies(within=29.999) is None


async def test_a_server_that_never_answered_is_not_asked_again() -> None:
    patient = Patient("silent")

    assert await patient.dies() is None

    assert patient.probes == [0.0]


async def test_a_word_at_the_last_moment_saves_a_server() -> None:
    patient = Patient(known=True, manner="silent")

    async with anyio.create_task_group() as tg:
        tg.start_soon(patient.dies)
        await anyio.sleep(29.0)
        patient.heard_at = anyio.current_time()

    assert patient.probes == [20.0, 39.0]
    assert patient.age == 49.0


async def test_a_frozen_server_is_found_out_though_it_was_never_asked() -> None:
    patient = Patient("silent")
    patient.frozen = True

    assert await patient.dies() == "was stopped by a signal and did not go on for 10 s"

    assert patient.age == 20.0


async def test_a_server_that_works_on_a_long_call_is_left_alone() -> None:
    patient = Patient(known=True, manner="silent")
    patient.called_at, patient.moves = patient.began, True

    assert await patient.dies() is None
    assert patient.probes == []


async def test_a_still_server_with_a_call_under_way_is_asked_and_left_alone() -> None:
    patient = Patient(known=True, manner="silent")
    patient.called_at = patient.began

    assert await patient.dies() is None
    assert patient.probes == [20.0]

    patient.called_at = None
    assert await patient.dies() is not None


async def test_a_server_that_takes_nothing_does_not_answer() -> None:
    patient = Patient(known=True, manner="takes nothing")

    assert await patient.dies() is not None


@pytest.mark.parametrize("manner", ["lost", "not sent"])
async def test_a_probe_that_the_wire_gives_up_proves_nothing(manner: Manner) -> None:
    patient = Patient(known=True, manner=manner)

    assert await patient.dies(within=45.0) is None
    assert patient.probes == [20.0, 30.0, 40.0]


async def test_nobody_is_watched_without_an_interval_and_everybody_from_when_there_is_one() -> None:
    patient = Patient(known=True, manner="silent")
    patient.vigil.tune(None)
    assert await patient.dies(within=500.0) is None
    assert patient.probes == []

    async with anyio.create_task_group() as tg:
        tg.start_soon(patient.dies)
        await trio.testing.wait_all_tasks_blocked()
        patient.vigil.tune(5.0)

    assert patient.probes == [500.0]
    assert patient.age == 505.0


async def test_a_probe_from_before_a_change_of_the_interval_does_not_count() -> None:
    patient = Patient(known=True, manner="silent")

    async with anyio.create_task_group() as tg:
        tg.start_soon(patient.dies)
        await anyio.sleep(25.0)
        patient.vigil.tune(INTERVAL)

    assert patient.probes == [20.0, 25.0]
    assert patient.age == 35.0


async def test_a_look_that_we_are_late_for_condemns_nobody(clock: MockClock) -> None:
    patient = Patient(known=True, manner="silent")
    clock.autojump_threshold = float("inf")

    async with anyio.create_task_group() as tg:
        tg.start_soon(patient.dies)
        for step in (10.0, 10.0, 100.0):
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(step)
        await trio.testing.wait_all_tasks_blocked()

        assert patient.probes == [20.0, 120.0]
        tg.cancel_scope.cancel()
