"""Starts of servers that have failed again and again, on a virtual clock."""

from collections import Counter

import anyio
import pytest
from trio.testing import MockClock

from supervisor.runtime.starts import Starts

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


async def begun(starts: Starts, *kinds: str) -> dict[str, list[float]]:
    """When each of these had its turn, from now on."""
    now, found = anyio.current_time(), dict[str, list[float]]()

    async def start(kind: str) -> None:
        if kind == "doubtful":
            await starts.doubt()
        await starts.turn()
        found.setdefault(kind, []).append(round(anyio.current_time() - now, 6))

    async with anyio.create_task_group() as tg:
        for kind in kinds:
            tg.start_soon(start, kind)
    return {kind: sorted(times) for kind, times in found.items()}


async def test_of_many_that_are_slow_only_so_many_start_in_each_second() -> None:
    found = await begun(Starts(), *["slow"] * 150)

    assert Counter(found["slow"]) == {0.0: 64, 1.0: 64, 2.0: 22}


async def test_the_doubtful_go_one_by_one_and_hold_up_nobody_else() -> None:
    found = await begun(Starts(pace=0.25), "doubtful", "doubtful", "fresh", "doubtful", "fresh")

    assert found == {"doubtful": [0.0, 0.25, 0.5], "fresh": [0.0, 0.0]}


async def test_nobody_waits_longer_than_a_minute() -> None:
    found = await begun(Starts(pace=50.0), *["doubtful"] * 4)

    assert found == {"doubtful": [0.0, 50.0, 60.0, 60.0]}


async def test_one_alone_does_not_wait() -> None:
    starts = Starts(pace=0.25)
    await begun(starts, "doubtful")
    await anyio.sleep(10.0)

    assert await begun(starts, "doubtful") == {"doubtful": [0.0]}
