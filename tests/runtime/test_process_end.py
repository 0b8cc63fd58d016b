"""The ends of children and of their groups are seen, and what is left of them is reaped once."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from supervisor.core.phases import End
from supervisor.runtime import proctable
from supervisor.runtime.orphans import Orphans
from supervisor.runtime.process import Child
from tests.runtime.support import (
    LOOPS,
    PATIENCE,
    alive,
    children_of_ours,
    number_in,
    shell,
    start,
    until,
)

pytestmark = pytest.mark.usefixtures("nothing_left")


@contextmanager
def one_descriptor_left() -> Iterator[None]:
    """We may open one file, and no second one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# How it ends.


@LOOPS
@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("exit 0", End("exited with code 0", code=0)),
        ("exit 7", End("exited with code 7", code=7)),
        ("kill -KILL $$", End("killed by signal 9 (SIGKILL)", signal=9)),
        ("kill -SEGV $$", End("killed by signal 11 (SIGSEGV)", signal=11)),
        ("kill -40 $$", End("killed by signal 40 (unknown)", signal=40)),
    ],
)
async def test_an_exit_is_seen_with_its_code_or_signal(script: str, end: End) -> None:
    child = start(shell(f"ulimit -c 0; {script}"))

    with anyio.fail_after(PATIENCE):
        seen = await child.exited()

    assert seen == end
    child.reap()


async def test_a_kill_is_not_blamed_on_memory_when_nobody_knows_how_many_there_were_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = iter([None, 3])
    monkeypatch.setattr(proctable, "memory_kills", lambda: next(counts))
    child = start(shell("kill -KILL $$"))

    with anyio.fail_after(PATIENCE):
        end = await child.exited()

    assert end == End("killed by signal 9 (SIGKILL)", signal=9)
    child.reap()


@LOOPS
async def test_the_dead_leader_keeps_its_number_until_it_is_reaped() -> None:
    child = start(shell("exit 3"))
    with anyio.fail_after(PATIENCE):
        await child.exited()
    held = proctable.entry(child.pid)

    child.reap()

    assert held is not None
    assert held.zombie
    assert proctable.entry(child.pid) is None


async def test_an_end_can_be_asked_for_again() -> None:
    child = start(shell("exit 3"))
    with anyio.fail_after(PATIENCE):
        first = await child.exited()

        assert await child.exited() is first
    child.reap()
    child.reap()


def test_an_exit_can_be_looked_for_without_waiting() -> None:
    child = start(shell("exec sleep 60"))
    before = child.has_exited

    child.signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert (before, child.has_exited) == (False, True)
    child.reap()


@LOOPS
async def test_waiting_for_an_exit_can_be_given_up_and_taken_up_again() -> None:
    child = start(shell("exec sleep 60"))
    with anyio.move_on_after(0.01) as patience:
        await child.exited()
    child.signal(signal.SIGTERM)

    with anyio.fail_after(PATIENCE):
        end = await child.exited()

    assert patience.cancelled_caught
    assert end.signal == signal.SIGTERM
    child.reap()


async def test_a_child_that_was_reaped_is_not_signalled_again() -> None:
    child = start(shell("exit 0"))
    with anyio.fail_after(PATIENCE):
        await child.exited()
    child.reap()

    child.signal(signal.SIGKILL)


def test_a_child_that_will_not_die_is_left_to_whoever_reaps_adopted_ones(orphans: Orphans) -> None:
    child = start(shell("exec sleep 60"))

    child.reap()

    assert alive(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    orphans.reap()
    assert proctable.entry(child.pid) is None


# Its group.


@LOOPS
async def test_a_group_is_empty_only_when_every_member_is_gone(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    child = start(shell(f"(trap '' TERM; echo $$ > {pidfile}; sleep 60) & exec sleep 60"))
    await until(lambda: number_in(pidfile))
    child.signal(signal.SIGTERM)
    with anyio.fail_after(PATIENCE):
        await child.exited()
        empty_after_term = await child.group_is_empty()

        child.signal(signal.SIGKILL)
        await child.emptied()

        assert await child.group_is_empty()
    assert not empty_after_term
    reap_adopted(child)


def reap_adopted(child: Child) -> None:
    """Take the members of the empty group that came to us when their leader died, and the leader."""
    for pid in children_of_ours():
        found = proctable.entry(pid)
        if found is not None and found.group == child.pid and pid != child.pid:
            os.waitpid(pid, 0)
    child.reap()


async def test_the_emptiness_of_a_group_can_be_awaited(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    child = start(shell(f"sleep 60 & echo $! > {pidfile}"))
    member = await until(lambda: number_in(pidfile))
    emptied = anyio.Event()

    async def wait() -> None:
        await child.emptied()
        emptied.set()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:
            await child.exited()
            tg.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            before = emptied.is_set()
            os.kill(member, signal.SIGKILL)

    assert not before
    assert emptied.is_set()
    reap_adopted(child)
