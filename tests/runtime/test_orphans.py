"""What leaves its group is found and ended, and what is not ours is left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import anyio
import pytest

from supervisor.runtime import proctable
from supervisor.runtime.orphans import TOKEN_NAME, Orphans, Token, instance_of
from tests.runtime.support import INSTANCE, LOOPS, PATIENCE, alive, bystander, fake, number_in, until

pytestmark = pytest.mark.usefixtures("nothing_left")


@contextmanager
def escaped(token: Token, directory: Path, kind: str = "double-fork") -> Iterator[int]:
    """A process below a dead leader, out of its group, with a token in its environment."""
    pidfile = directory / "pid"
    options = ("--grandchild", kind, "--grandchild-ignores-term", "--grandchild-pidfile", pidfile)
    with bystander(fake(*options, "--exit-at", "spawn"), **{TOKEN_NAME: str(token)}) as leader:
        leader.wait(PATIENCE)
        pid = number_in(pidfile)
        assert alive(pid)
        yield pid


# Tokens.


def test_a_token_names_instance_daemon_run_and_server(orphans: Orphans) -> None:
    us = proctable.entry(os.getpid())
    assert us is not None

    assert str(orphans.token("a:b")) == f"{INSTANCE}:{us.pid}-{us.started}:1:a:b"


def test_no_two_runs_share_a_token(orphans: Orphans) -> None:
    assert orphans.token("server") != orphans.token("server")


def test_an_instance_is_named_by_where_its_socket_really_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert instance_of(f"{tmp_path}/link/control.sock") == instance_of(f"{tmp_path}/control.sock")
    assert instance_of(f"{tmp_path}/other.sock") != instance_of(f"{tmp_path}/control.sock")


# The sweep at the end of a run.


@LOOPS
@pytest.mark.parametrize("kind", ["setsid", "double-fork"])
async def test_what_left_its_group_is_killed_and_reaped(orphans: Orphans, tmp_path: Path, kind: str) -> None:
    token = orphans.token("server")
    with escaped(token, tmp_path, kind) as pid, anyio.fail_after(PATIENCE):
        assert await orphans.sweep(token) == 1

        assert proctable.entry(pid) is None


async def test_what_belongs_to_another_run_lives_on(orphans: Orphans, tmp_path: Path) -> None:
    with escaped(orphans.token("server"), tmp_path) as pid, anyio.fail_after(PATIENCE):
        assert await orphans.sweep(orphans.token("server")) == 0

        assert alive(pid)
        await orphans.sweep_all()


async def test_nothing_to_sweep_takes_nobody(orphans: Orphans) -> None:
    with anyio.fail_after(PATIENCE):
        assert await orphans.sweep(orphans.token("server")) == 0


async def test_what_lost_its_token_is_killed_when_it_was_seen_before(orphans: Orphans) -> None:
    script = "echo; env -i setsid sleep 60; :"
    with bystander(["sh", "-c", script]) as leader, anyio.fail_after(PATIENCE):
        seen = await until(lambda: orphans.below(leader.pid))

        assert await orphans.sweep(orphans.token("server"), remembered=seen) >= 1

        leader.wait(PATIENCE)


async def test_what_was_seen_before_is_not_killed_once_its_number_has_another_owner(
    orphans: Orphans,
) -> None:
    with bystander(["sleep", "60"]) as stranger, anyio.fail_after(PATIENCE):
        found = proctable.entry(stranger.pid)
        assert found is not None

        earlier = {(found.pid, found.started - 1)}
        assert await orphans.sweep(orphans.token("server"), remembered=earlier) == 0

        assert alive(stranger.pid)


RELAYS = {
    "in one group": "pass",
    "in a new group each time": "os.setpgid(0, 0)",
    "in a new session each time": "os.setsid()",
}


@LOOPS
@pytest.mark.parametrize("step", RELAYS.values(), ids=RELAYS)
async def test_a_relay_that_is_gone_whenever_it_is_looked_at_is_ended(orphans: Orphans, step: str) -> None:
    token = orphans.token("server")
    start = "import os, time; os.fork() and os._exit(0); os.setsid(); os.write(1, bytes([10]))"
    # One that got away would take a processor for ever, so it ends by itself, long after it must have ended.
    minute = "end = time.monotonic() + 60\nwhile time.monotonic() < end:"
    script = f"{start}\n{minute}\n    os.fork() and os._exit(0)\n    {step}"
    with bystander([sys.executable, "-ISc", script], **{TOKEN_NAME: str(token)}) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        leader.wait(PATIENCE)

        with anyio.fail_after(PATIENCE):
            assert await orphans.sweep(token) >= 1

        assert leader.stdout.read() == b""  # nobody holds the other end


async def test_what_has_no_token_lives_as_long_as_one_that_may_have_started_it(orphans: Orphans) -> None:
    with (
        bystander(["sleep", "60"]) as one,
        bystander(["sleep", "60"]) as other,
        orphans.leading(one.pid, since=proctable.clock()),
        orphans.leading(other.pid, since=proctable.clock()),
        bystander(["sleep", "60"]) as stray,
        anyio.fail_after(PATIENCE),
    ):
        assert await orphans.sweep(orphans.token("server"), leader=one.pid) == 0

        assert alive(stray.pid)


async def test_what_has_no_token_ends_with_the_last_that_may_have_started_it(orphans: Orphans) -> None:
    with (
        bystander(["sleep", "60"]) as leader,
        orphans.leading(leader.pid, since=proctable.clock()),
        bystander(["sleep", "60"]) as stray,
        anyio.fail_after(PATIENCE),
    ):
        assert await orphans.sweep(orphans.token("server"), leader=leader.pid) == 1

        assert proctable.entry(stray.pid) is None


@LOOPS
async def test_a_whole_family_that_left_is_killed(orphans: Orphans) -> None:
    token = orphans.token("server")
    script = "setsid sh -c 'sleep 60 & sleep 60 & echo; wait' & wait"
    with bystander(["sh", "-c", script], **{TOKEN_NAME: str(token)}) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait(PATIENCE)

        with anyio.fail_after(PATIENCE):
            assert await orphans.sweep(token) == 3

        assert proctable.descendants(os.getpid()) == []


EXECUTING = 'exec /bin/sh -c "$0" "$0"'


async def test_a_process_in_the_middle_of_an_exec_is_not_missed(orphans: Orphans) -> None:
    for _ in range(100):
        token = orphans.token("server")
        with bystander(["/bin/sh", "-c", EXECUTING, EXECUTING], **{TOKEN_NAME: str(token)}) as process:
            with anyio.fail_after(PATIENCE):
                swept = await orphans.sweep(token)

            assert swept == 1
            assert not alive(process.pid)


@LOOPS
async def test_at_the_very_end_every_descendant_goes(orphans: Orphans, tmp_path: Path) -> None:
    stranger = Token("elsewhere", "1-1", 1, "server")
    with escaped(stranger, tmp_path) as pid, anyio.fail_after(PATIENCE):
        assert await orphans.sweep_all() == 1

        assert proctable.entry(pid) is None


# Adopted children that die by themselves.


@LOOPS
async def test_an_adopted_child_is_reaped_when_it_dies(orphans: Orphans, tmp_path: Path) -> None:
    async with anyio.create_task_group() as tg:
        tg.start_soon(orphans.watch)
        with escaped(orphans.token("server"), tmp_path) as pid:
            await anyio.wait_all_tasks_blocked()

            os.kill(pid, signal.SIGKILL)

            await until(lambda: proctable.entry(pid) is None)
        tg.cancel_scope.cancel()


@LOOPS
async def test_a_child_that_somebody_waits_for_is_left_to_him(orphans: Orphans) -> None:
    async with anyio.create_task_group() as tg:
        tg.start_soon(orphans.watch)
        await anyio.wait_all_tasks_blocked()
        with (
            bystander(["sleep", "60"]) as ours,
            bystander(["sleep", "60"]) as adopted,
            orphans.leading(ours.pid, since=proctable.clock()),
        ):
            ours.kill()
            adopted.kill()

            await until(lambda: proctable.entry(adopted.pid) is None)
            assert ours.wait(PATIENCE) == -signal.SIGKILL
        tg.cancel_scope.cancel()


async def test_the_watch_gives_back_the_signal_it_took(orphans: Orphans) -> None:
    before = signal.getsignal(signal.SIGCHLD)
    async with anyio.create_task_group() as tg:
        tg.start_soon(orphans.watch)
        await anyio.wait_all_tasks_blocked()
        tg.cancel_scope.cancel()

    assert signal.getsignal(signal.SIGCHLD) is before


# What a dead daemon left.


DEAD = Token(INSTANCE, "999999-1", 3, "server")
OTHER_INSTANCE = Token("elsewhere", "999999-1", 3, "server")


def left_behind(token: Token, *, stubborn: bool = False) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """A process as a daemon left it; nothing but its token tells whose it is."""
    deafness = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" if stubborn else ""
    script = f"import os, signal; {deafness} os.write(1, b'\\n'); signal.pause()"
    return bystander([sys.executable, "-I", "-S", "-c", script], **{TOKEN_NAME: str(token)})


def is_up(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"


@LOOPS
async def test_what_a_dead_daemon_left_is_asked_to_end(orphans: Orphans) -> None:
    with left_behind(DEAD) as process, anyio.fail_after(PATIENCE):
        is_up(process)

        ended = await orphans.end_leftovers(grace=PATIENCE)

        assert ended >= 1
        assert process.wait(PATIENCE) == -signal.SIGTERM


async def test_what_a_dead_daemon_left_is_killed_when_it_will_not_end(orphans: Orphans) -> None:
    with left_behind(DEAD, stubborn=True) as process, anyio.fail_after(PATIENCE):
        is_up(process)

        await orphans.end_leftovers(grace=0.05)

        assert process.wait(PATIENCE) == -signal.SIGKILL


async def test_what_a_dead_daemon_left_is_gone_when_that_is_said(orphans: Orphans) -> None:
    with left_behind(DEAD, stubborn=True) as process, anyio.fail_after(PATIENCE):
        is_up(process)

        await orphans.end_leftovers(grace=0.05)

        assert not alive(process.pid)


async def test_what_a_living_daemon_or_another_instance_has_is_left_alone(orphans: Orphans) -> None:
    ours = orphans.token("server")
    with left_behind(ours) as mine, left_behind(OTHER_INSTANCE) as theirs, anyio.fail_after(PATIENCE):
        is_up(mine)
        is_up(theirs)

        assert await orphans.end_leftovers(grace=0.05) == 0

        assert alive(mine.pid)
        assert alive(theirs.pid)


async def test_an_instance_is_not_taken_for_one_whose_name_it_begins_with(orphans: Orphans) -> None:
    with left_behind(Token(INSTANCE + "2", "999999-1", 1, "server")) as process, anyio.fail_after(PATIENCE):
        is_up(process)

        assert await orphans.end_leftovers(grace=0.05) == 0
