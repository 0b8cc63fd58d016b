"""One look at the process table serves everyone who asked before it."""

import signal
from itertools import pairwise

import anyio
import pytest

from supervisor.runtime import proctable
from supervisor.runtime.census import Census, Snapshot
from supervisor.runtime.proctable import Entry
from tests.runtime.support import bystander, until

pytestmark = pytest.mark.usefixtures("nothing_left")

FAMILY = ["sh", "-c", "sleep 60 & sleep 60 & echo; wait"]


def process(pid: int, parent: int, group: int, state: str = "S") -> Entry:
    return Entry(pid=pid, parent=parent, group=group, session=group, state=state, started=pid)


def test_a_group_has_its_living_members_alone() -> None:
    snapshot = Snapshot([process(10, 1, 10, "Z"), process(11, 10, 10), process(12, 10, 12)])

    assert [found.pid for found in snapshot.group(10)] == [11]
    assert snapshot.group(99) == []


def test_descendants_are_found_below_the_dead_too() -> None:
    snapshot = Snapshot(
        [process(10, 1, 10), process(11, 10, 10, "Z"), process(12, 11, 12), process(13, 1, 13)]
    )

    assert [found.pid for found in snapshot.below(10)] == [12]
    assert sorted(found.pid for found in snapshot.below(1)) == [10, 12, 13]


async def test_who_asks_together_is_answered_by_one_look() -> None:
    census = Census()
    answers: list[Snapshot] = []

    async def ask() -> None:
        answers.append(await census.taken())

    async with anyio.create_task_group() as tg:
        for _ in range(20):
            tg.start_soon(ask)

    assert len(answers) == 20
    assert all(one is other for one, other in pairwise(answers))


async def test_an_answer_is_never_older_than_its_question() -> None:
    census = Census()
    await census.taken()
    with bystander(FAMILY) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()

        found = (await census.taken()).group(leader.pid)

        assert len(found) == 3


async def test_a_token_once_seen_is_not_lost_by_an_exec() -> None:
    census = Census()
    script = "trap 'exec env -i sleep 60' USR1; echo; while :; do :; done"
    with bystander(["sh", "-c", script], TOKEN="mine") as child:
        assert child.stdout is not None
        child.stdout.readline()
        before = await census.tokens(b"TOKEN")
        child.send_signal(signal.SIGUSR1)
        await until(lambda: proctable.environment_value(child.pid, b"TOKEN") is None)

        after = await census.tokens(b"TOKEN")

        assert {found.pid: token for found, token in before.items()}[child.pid] == b"mine"
        assert {found.pid: token for found, token in after.items()}[child.pid] == b"mine"
