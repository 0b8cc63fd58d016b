"""A start holds up nobody, and is never left halfway."""

import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from supervisor.core.phases import End, Launched
from supervisor.runtime import posixspawn, proctable
from supervisor.runtime.census import Census
from supervisor.runtime.conversation import Dialect
from supervisor.runtime.memory import Memory
from supervisor.runtime.orphans import TOKEN_NAME, Orphans
from supervisor.runtime.process import Command
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.stdio import Host
from tests.runtime.support import (
    ENVIRON,
    LOOPS,
    PATIENCE,
    Stage,
    alive,
    bystander,
    children_of_ours,
    fake,
    staged,
    until,
)

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]


class Program:
    """A copy of `sleep` that waits to be released: it is leased, so whoever opens it to execute it waits."""

    def __init__(self, path: Path, lease: int) -> None:
        self.path, self._lease = path, lease

    @property
    def argv(self) -> list[str]:
        return [str(self.path), "60"]

    def release(self) -> None:
        fcntl.fcntl(self._lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Program]:
    found = shutil.which("sleep")
    assert found is not None
    path = Path(shutil.copy(found, tmp_path / "held"))
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the kernel says that somebody waits
    lease = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as exc:
        pytest.skip(f"no leases on files in {tmp_path}: {exc}")
    try:
        yield Program(path, lease)
    finally:
        os.close(lease)
        signal.signal(signal.SIGIO, before)


def newborns() -> list[int]:
    """The children that were started by other threads than ours."""
    adopted = proctable.children_of_the_main_thread()
    return [pid for pid in children_of_ours() if pid not in adopted]


def newborn() -> int:
    """A child that is being started and waits to execute its program; 0 when there is none."""
    return next(iter(newborns()), 0)


@contextlib.contextmanager
def later(program: Program) -> Iterator[None]:
    """Whatever happens, let the start go on: a thread waits for it."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            program.release()


def tokened(argv: list[str]) -> Command:
    return Command(argv, {**ENVIRON, TOKEN_NAME: "token"})


async def test_the_loop_turns_while_a_new_process_waits_to_execute_its_program(held: Program) -> None:
    begun: list[int] = []
    with later(held), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:

            async def begin() -> None:
                child, pipes = await Spawner().start(tokened(held.argv), Census())
                begun.append(child.pid)
                pipes.close()
                child.signal(signal.SIGKILL)
                await child.exited()
                child.reap()

            tg.start_soon(begin)
            pid = await until(newborn)  # found by turns of the loop
            assert begun == []

            held.release()

    assert begun == [pid]


@pytest.mark.parametrize(("wish", "number"), [("close", 15), ("abort", 9)])
async def test_a_stop_that_comes_while_a_child_is_being_started_ends_it(
    host: Host, held: Program, wish: str, number: int
) -> None:
    stage = Stage(host, held.argv, Dialect(), {})
    with later(held), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:
            tg.start_soon(stage.live)
            await until(newborn)
            assert stage.run.pid is None

            getattr(stage.run, wish)()
            held.release()

    assert stage.end == End(f"killed by signal {number} ({signal.Signals(number).name})", signal=number)


async def test_one_start_that_hangs_holds_up_no_other(host: Host, held: Program) -> None:
    slow, other = Stage(host, held.argv, Dialect(), {}), Stage(host, fake(), Dialect(), {})
    with later(held), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:
            tg.start_soon(slow.live)
            await until(newborn)
            tg.start_soon(other.live)

            await other.opened()

            other.run.close()
            slow.run.close()
            held.release()


async def test_a_stop_of_one_that_waits_for_its_turn_starts_nothing(host: Host, held: Program) -> None:
    slow = [Stage(host, held.argv, Dialect(), {}) for _ in range(4)]
    waiting = Stage(host, ["sleep", "60"], Dialect(), {})
    with later(held), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:
            for each in slow:
                tg.start_soon(each.live)
            await until(lambda: len(newborns()) == len(slow))
            async with anyio.create_task_group() as other:
                other.start_soon(waiting.live)
                await until(lambda: Launched(1) in waiting.events)
                await anyio.wait_all_tasks_blocked()

                waiting.run.close()

            assert waiting.end == End("stopped before it was started")
            for each in slow:
                each.run.close()
            held.release()


async def test_a_child_that_the_kernel_still_held_is_reaped_when_it_is_gone(host: Host) -> None:
    census = host.orphans.census
    child, pipes = await host.spawner.start(tokened(["sleep", "60"]), census)
    pipes.close()
    del census.leaders[child.pid]

    child.reap()

    assert census.forsaken == {child.pid}
    os.kill(child.pid, signal.SIGKILL)
    await until(host.orphans.reap)
    assert census.forsaken == set()


async def test_a_run_that_is_cancelled_while_its_child_is_being_started_leaves_nothing(
    host: Host, held: Program
) -> None:
    stage = Stage(host, held.argv, Dialect(), {})
    with later(held), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tg:
            tg.start_soon(stage.live)
            pid = await until(newborn)

            tg.cancel_scope.cancel()
            held.release()

    assert not alive(pid)


async def test_what_is_being_started_is_nobodys_stray(orphans: Orphans, host: Host, held: Program) -> None:
    with later(held), bystander(["sleep", "60"]) as stranger, contextlib.ExitStack() as stack:
        older = proctable.entry(stranger.pid)
        assert older is not None
        await until(lambda: proctable.clock() > older.started)
        leader = stack.enter_context(bystander(["sleep", "60"]))
        stack.enter_context(orphans.leading(leader.pid, since=proctable.clock()))
        async with staged(host, held.argv) as stage:
            pid = await until(newborn)

            with anyio.fail_after(PATIENCE):
                assert await orphans.sweep(orphans.token("server"), leader=leader.pid) == 0
            held.release()
            await until(lambda: stage.run.pid == pid)


async def test_starts_that_the_system_refuses_are_told_to_whoever_asked(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/does/not/exist\n")
    program.chmod(0o755)

    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        await Spawner().start(tokened([str(program)]), Census())


async def test_what_could_not_be_found_out_for_one_start_is_found_out_for_the_next(orphans: Orphans) -> None:
    refusals = [BlockingIOError("no more processes")]

    def find_prefix() -> tuple[str, ...]:
        if refusals:
            raise refusals.pop()
        return ()

    spawner = Spawner(find_prefix)
    with pytest.raises(BlockingIOError):
        await spawner.start(tokened(["sleep", "60"]), Census())

    child, pipes = await spawner.start(tokened(["sleep", "60"]), orphans.census)

    pipes.close()
    child.signal(signal.SIGKILL)
    await child.exited()
    child.reap()


async def test_an_older_c_library_will_do(monkeypatch: pytest.MonkeyPatch, orphans: Orphans) -> None:
    monkeypatch.setattr(posixspawn, "_library", object())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # as while the daemon is loaded
    host = Host(orphans, Memory(None))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    async with staged(host, ["/bin/sh", "-c", "pwd; exec cat"]) as stage:
        await until(lambda: stage.run.pid)

        stage.run.close()

        assert (await stage.ended()).detail == "killed by signal 15 (SIGTERM)"
