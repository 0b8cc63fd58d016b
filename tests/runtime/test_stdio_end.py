"""Runs of real children end: what they said last arrives, and nothing of them is left."""

import itertools
import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from supervisor.core.phases import End, Lost
from supervisor.runtime import conversation, proctable
from supervisor.runtime.conversation import Dialect
from supervisor.runtime.pipes import Ears, connected
from supervisor.runtime.process import Pipes
from supervisor.runtime.stdio import Host
from supervisor.runtime.wire import NotSent
from tests.runtime.support import (
    LOOPS,
    PATIENCE,
    QUICK,
    Stage,
    alive,
    fake,
    number_in,
    small_server,
    staged,
    starts,
    until,
)

pytestmark = [pytest.mark.usefixtures("nothing_left"), LOOPS]

# Ends that nobody asked for.


async def test_last_words_before_an_exit_are_delivered(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()
        asked = [stage.ask("big", bytes=3_000_000), stage.ask("exit_later", code=4)]

        end = await stage.ended()

    assert end == End("exited with code 4", code=4)
    assert [len(answer.text) for answer in asked] == [3_000_000, 4]


async def test_an_answer_before_an_exit_is_heard_whatever_stands_before_it(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()

        asked = await stage.call("last_words", noise=40_000)

        await stage.ended()
    assert asked.text == "last"


async def test_a_call_during_which_the_server_dies_is_told_how_once(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()
        slow = stage.ask("sleep", seconds=60)

        fatal = await stage.call("crash", signal="SIGKILL")

        end = await stage.ended()
    assert end == End("killed by signal 9 (SIGKILL)", signal=9)
    assert slow.told == fatal.told == [end]


async def test_half_an_answer_is_no_answer(host: Host) -> None:
    async with staged(host, fake("--half-line", "--exit-code", "5")) as stage:
        await stage.opened()

        asked = await stage.call("echo")

    assert asked.told == [End("exited with code 5", code=5)]


async def test_a_last_line_on_stderr_without_a_newline_is_kept(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()
        await stage.call("stderr", text="Segmentation fault")
        await stage.call("crash", code=1)
        await stage.ended()

    assert stage.stderr == ["Segmentation fault"]


LAST_WORDS = """
import os, threading, time
def say():
    while not os.path.exists({flag!r}):
        time.sleep(0.01)
    for n in range(30):
        os.write(2, b"much ado\\n" * 7000)
    os.write(2, b"ImportError")
    os._exit(1)
threading.Thread(target=say).start()
"""


async def test_the_last_words_after_much_on_stderr_are_heard(host: Host, tmp_path: Path) -> None:
    async with staged(host, small_server(before=LAST_WORDS.format(flag=str(tmp_path / "now")))) as stage:
        await stage.opened()
        (tmp_path / "now").touch()
        await stage.ended()

    assert stage.stderr[-1] == "ImportError"


@pytest.mark.parametrize(
    ("descriptor", "why"), [(1, "closed its standard output"), (0, "closed its standard input")]
)
async def test_a_server_that_closes_a_pipe_is_lost_though_it_lives(
    host: Host, descriptor: int, why: str
) -> None:
    argv = small_server(on_call=f"import os, time; os.close({descriptor}); time.sleep(60)")
    async with staged(host, argv) as stage:
        await stage.opened()
        waiting = [stage.ask("close it"), stage.ask("anything")]

        assert await stage.lost() == why

        assert alive(stage.pid)
        assert [type(asked.told[0]) for asked in waiting] == [msgspec.Raw, End]
        assert [len(asked.told) for asked in waiting] == [1, 1]


async def test_a_line_that_is_too_long_ends_the_calls_and_the_run(host: Host) -> None:
    dialect = Dialect(max_line_bytes=100_000, limits=QUICK)
    async with staged(host, fake(), dialect) as stage:
        await stage.opened()
        asked = [stage.ask("big", bytes=200_000), stage.ask("sleep", seconds=60)]

        why = await stage.lost()

    assert "longer than 100000 bytes" in why
    assert [answer.told for answer in asked] == [[End(why)], [End(why)]]


def held_as_stdout(pid: int) -> Path:
    return Path(f"/proc/{pid}/fd/1").readlink()


async def test_an_exit_is_noticed_at_once_though_a_grandchild_holds_stdout(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It holds it for an hour, and what a broken pipe alone would tell comes no sooner.
    monkeypatch.setattr(conversation, "_SILENCE", 3600.0)
    options = ("--grandchild", "group", "--grandchild-pidfile", tmp_path / "pid")
    async with staged(host, fake(*options)) as stage:
        await stage.opened()
        stdout = held_as_stdout(stage.pid)

        asked = await stage.call("crash", code=1)
        why = await stage.lost()

        assert asked.told == [End("exited with code 1", code=1)]
        assert why == "exited with code 1, but its group lives on"
        grandchild = number_in(tmp_path / "pid")
        assert alive(grandchild)
        assert held_as_stdout(grandchild) == stdout


# Stopping.


async def test_a_server_is_asked_to_end_by_signal_and_by_the_end_of_its_input(
    host: Host, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with staged(host, fake("--ignore-sigterm", "--ignore-eof", "--log", log)) as stage:
        await stage.opened()

        stage.run.close()

        await until(lambda: '"signal":"SIGTERM"' in log.read_text() and '"end":"stdin"' in log.read_text())
        assert stage.end is None
        stage.run.abort()
        assert await stage.ended() == End("killed by signal 9 (SIGKILL)", signal=9)


async def test_the_run_goes_on_until_the_last_of_the_group_is_gone(host: Host, tmp_path: Path) -> None:
    options = ("--grandchild", "group", "--grandchild-ignores-term", "--grandchild-pidfile", tmp_path / "pid")
    async with staged(host, fake(*options, "--leader-exits-on-term")) as stage:
        await stage.opened()
        leader, member = stage.pid, number_in(tmp_path / "pid")
        stage.run.close()
        await stage.lost()
        assert not alive(leader)
        assert alive(member)
        assert stage.end is None

        stage.run.abort()

        assert await stage.ended() == End("exited with code 0", code=0)
        assert not alive(member)


async def test_a_stopped_process_can_be_ended(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()
        os.killpg(stage.pid, signal.SIGSTOP)
        stage.run.close()

        stage.run.abort()

        assert (await stage.ended()).signal == signal.SIGKILL


WAYS_OUT = ["close", "abort", "cancel", "exit"]


async def leave(stage: Stage, way: str) -> None:
    if way == "exit":
        os.kill(stage.pid, signal.SIGKILL)
    elif way != "cancel":
        getattr(stage.run, way)()
    if way != "cancel":
        await stage.ended()


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("kind", ["setsid", "double-fork"])
async def test_what_left_the_group_does_not_outlive_the_run(
    host: Host, tmp_path: Path, kind: str, way: str
) -> None:
    options = ("--grandchild", kind, "--grandchild-ignores-term", "--grandchild-pidfile", tmp_path / "pid")
    async with staged(host, fake(*options)) as stage:
        await stage.opened()
        await leave(stage, way)

    assert proctable.entry(number_in(tmp_path / "pid")) is None


STRAYS = {
    "in another group": "os.setpgid(0, 0)",
    "without environment": "os.setsid(); os.execve('/bin/sleep', ['sleep', '60'], {})",
    "without environment and parent": (
        "os.setsid(); os.fork() and os._exit(0); os.execve('/bin/sleep', ['sleep', '60'], {})"
    ),
}


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("stray", STRAYS)
async def test_no_disguise_outlives_the_run(host: Host, stray: str, way: str) -> None:
    escape = f"import os, signal\nif not os.fork():\n    {STRAYS[stray]}; signal.pause()\n"
    async with staged(host, small_server(before=escape)) as stage:
        await stage.opened()
        await leave(stage, way)

    assert proctable.descendants(os.getpid()) == []


@pytest.mark.parametrize("turns", range(0, 40, 3))
async def test_a_run_can_be_cancelled_at_any_moment(host: Host, turns: int) -> None:
    async with staged(host, fake("--ignore-sigterm", "--ignore-eof")) as stage:
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        if turns % 2:
            stage.run.close()

    assert proctable.descendants(os.getpid()) == []


async def test_a_stop_during_the_start_is_heard(host: Host, tmp_path: Path) -> None:
    async with staged(host, fake("--slow-start", "60", "--log", tmp_path / "log")) as stage:
        await until(lambda: starts(tmp_path / "log") == 1)

        stage.run.close()

        assert (await stage.ended()).signal == signal.SIGTERM
        assert starts(tmp_path / "log") == 1


async def test_closed_pipes_close_nothing_that_was_opened_after_them() -> None:
    theirs, ours = zip(*(os.pipe() for _ in range(3)), strict=True)
    pipes = Pipes(stdin=ours[0], stdout=theirs[1], stderr=theirs[2])
    deaf = Ears(lambda _: False, lambda *_: None, lambda: None, lambda: None)
    async with connected(pipes, deaf):
        pass
    later = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]

    await anyio.sleep(0.01)

    survived = [os.path.exists(f"/proc/self/fd/{descriptor}") for descriptor in later]  # noqa: ASYNC240, PTH110
    for descriptor in (theirs[0], *ours[1:], *itertools.compress(later, survived)):
        os.close(descriptor)
    assert survived == [True] * 3


async def test_a_child_that_reads_no_more_is_sent_no_more(host: Host) -> None:
    async with staged(host, fake()) as stage:
        await stage.opened()
        wire = stage.run.talk.wire

        os.kill(stage.pid, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while stage.end is None:
                with suppress(NotSent):
                    stage.ask("echo")
                await anyio.sleep(0.001)

        assert not wire.alive
        with pytest.raises(NotSent, match="SIGKILL"):
            stage.ask("echo")


async def test_a_lost_report_speaks_of_its_run(host: Host) -> None:
    async with staged(host, fake("--echo")) as stage:
        await stage.lost()

    assert [event.run for event in stage.events if isinstance(event, Lost)] == [1]
