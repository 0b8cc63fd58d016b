"""Children are started as they should be, and nobody else is ever signalled."""

import fcntl
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from supervisor.runtime import proctable
from supervisor.runtime.orphans import Orphans
from supervisor.runtime.process import (
    CannotStart,
    Child,
    Command,
    death_signal_prefix,
    signal_group,
    signal_process,
    spawn,
)
from tests.runtime.support import (
    ENVIRON,
    PATIENCE,
    alive,
    bystander,
    in_a_subprocess,
    python,
    shell,
    start,
    until,
)

pytestmark = pytest.mark.usefixtures("nothing_left")


def finish(child: Child) -> None:
    """Reap a child once it has exited."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    child.reap()


def output_of(command: Command) -> bytes:
    """All that a child writes until it ends."""
    child, pipes = spawn(command)
    with open(pipes.stdout, "rb", closefd=False) as stdout:
        written = stdout.read()
    pipes.close()
    finish(child)
    return written


# Whom we never signal.


@pytest.mark.parametrize("group", [1, 0, -1, -1234, pytest.param(os.getpgrp(), id="ours")])
def test_no_group_of_ours_or_of_the_system_is_signalled(group: int) -> None:
    with pytest.raises(ValueError, match="refusing to signal process group"):
        signal_group(group, 0)


@pytest.mark.parametrize("pid", [1, 0, -1, -1234, pytest.param(os.getpid(), id="ours")])
def test_neither_we_nor_the_system_are_signalled(pid: int) -> None:
    with pytest.raises(ValueError, match="refusing to signal process"):
        signal_process(pid, 0, 0)


def test_a_group_that_is_gone_is_no_trouble() -> None:
    with bystander(["true"]) as process:
        process.wait(PATIENCE)

        signal_group(process.pid, signal.SIGKILL)


def test_a_process_that_is_gone_is_not_found() -> None:
    with bystander(["true"]) as process:
        process.wait(PATIENCE)

        assert not signal_process(process.pid, 0, signal.SIGKILL)


def test_a_process_with_another_start_time_is_a_stranger() -> None:
    with bystander(["sleep", "60"]) as process:
        found = proctable.entry(process.pid)
        assert found is not None

        assert not signal_process(process.pid, found.started - 1, signal.SIGKILL)

        assert alive(process.pid)


def test_a_process_with_the_right_start_time_is_signalled() -> None:
    with bystander(["sleep", "60"]) as process:
        found = proctable.entry(process.pid)
        assert found is not None

        assert signal_process(process.pid, found.started, signal.SIGUSR1)

        assert process.wait(PATIENCE) == -signal.SIGUSR1


# How it starts.


def test_a_child_leads_its_own_session_and_group() -> None:
    child = start(shell("exec sleep 60"))

    found = proctable.entry(child.pid)

    assert found is not None
    assert (found.group, found.session, found.parent) == (child.pid, child.pid, os.getpid())
    child.signal(signal.SIGKILL)
    finish(child)


def test_a_child_inherits_nothing_but_its_three_streams() -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    script = "import os, sys; print([fd for fd in os.listdir('/proc/self/fd') if int(fd) < 1000])"

    listed = output_of(python(script))

    os.close(reader)
    os.close(writer)
    # The fourth is the directory that is being listed.
    assert listed == b"['0', '1', '2', '3']\n"


def test_a_large_answer_fits_into_the_pipe() -> None:
    child, pipes = spawn(shell("exec sleep 60"))
    try:
        assert fcntl.fcntl(pipes.stdout, fcntl.F_GETPIPE_SZ) == 1024 * 1024
    finally:
        pipes.close()
        child.signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        child.reap()


def test_a_child_has_the_environment_it_is_given_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    script = "import json, sys; print(json.dumps(open('/proc/self/environ').read().split('\\0')))"

    environment = json.loads(output_of(python(script, MINE="yes")))

    assert sorted(filter(None, environment)) == sorted(
        f"{name}={value}" for name, value in {**ENVIRON, "MINE": "yes"}.items()
    )


def test_a_bare_name_is_looked_up_on_the_path_of_the_child(tmp_path: Path) -> None:
    program = tmp_path / "greet"
    program.write_text("#!/bin/sh\necho hello $1\n")
    program.chmod(0o755)

    assert output_of(Command(["greet", "you"], {"PATH": str(tmp_path)})) == b"hello you\n"


def test_an_empty_path_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "here"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CannotStart, match="cannot find the command here on PATH"):
        spawn(Command(["here"], {"PATH": ""}))


def test_a_relative_path_starts_from_the_working_directory(tmp_path: Path) -> None:
    program = tmp_path / "where"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)

    written = output_of(Command(["./where"], ENVIRON, str(tmp_path)))

    assert written == f"{tmp_path}\n".encode()


def test_a_relative_place_on_the_path_starts_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for each in (there, here):
        (each / "bin").mkdir(parents=True)
        monkeypatch.chdir(each)
    program = there / "bin" / "where"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    command = Command(["where"], {"PATH": "bin:/usr/bin:/bin"}, str(there))

    assert output_of(command) == f"{there}\n".encode()


@pytest.mark.parametrize(
    ("argv", "cwd", "complaint"),
    [
        (["/does/not/exist"], None, r"cannot find /does/not/exist: no such file"),
        (["no-such-command"], None, r"cannot find the command no-such-command on PATH; give"),
        (["./program"], "{tmp}", r"cannot execute ./program: .*chmod \+x"),
        (["/etc"], None, r"cannot execute /etc: it is not an executable file"),
        (["sh"], "/does/not/exist", r"cannot start in /does/not/exist: no such directory"),
        (["sh"], "{tmp}/program", r"cannot start in .*/program: no such directory"),
        (["sh", "a\0b"], None, r"an argument, a variable or cwd holds a NUL character; take it out"),
        (["sh", "\ud800"], None, r"an argument, a variable or cwd has no form in utf-8 .*; use UTF-8"),
    ],
)
def test_a_command_that_cannot_be_started_says_why(
    argv: list[str], cwd: str | None, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "program").touch(0o600)
    place = None if cwd is None else cwd.format(tmp=tmp_path)

    with pytest.raises(CannotStart, match=complaint):
        spawn(Command(argv, ENVIRON, place))


@pytest.mark.parametrize("content", ["#!/does/not/exist\n", "\x00\x01"], ids=["no interpreter", "no program"])
def test_a_file_that_the_system_refuses_to_execute_leaks_nothing(tmp_path: Path, content: str) -> None:
    program = tmp_path / "program"
    program.write_text(content)
    program.chmod(0o755)

    with pytest.raises(OSError, match=r"No such file|Exec format"):
        spawn(Command([str(program)], ENVIRON))


STARVED = """
import os, resource
from supervisor.runtime.process import Command, spawn
from supervisor.runtime.proctable import children

command = Command(["/bin/sleep", "60"], {})
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
for spare in range(12):
    before = os.listdir("/proc/self/fd")
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) - 1 + spare, hard))
    try:
        child, pipes = spawn(command)
    except OSError as exc:
        outcome = os.strerror(exc.errno)
    else:
        outcome = "started"
        pipes.close()
        child.signal(9)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        child.reap()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir("/proc/self/fd") == before, (spare, before, os.listdir("/proc/self/fd"))
    assert children(os.getpid()) == [], spare
    print(outcome)
"""


def test_however_few_descriptors_there_are_a_failed_start_leaks_none() -> None:
    outcomes = in_a_subprocess(STARVED).splitlines()

    assert outcomes[0] == "Too many open files"
    assert outcomes[-1] == "started"
    assert len(outcomes) == 12


CROWDED = """
import os, resource
from supervisor.runtime.process import Command, spawn

before = os.listdir("/proc/self/fd")
os.setresuid(*[2**31 - 7] * 3)  # whoever that is, nobody else is
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    spawn(Command(["/bin/sleep", "60"], {}))
except OSError as exc:
    print(exc.strerror)
assert os.listdir("/proc/self/fd") == before
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_without_room_for_a_process_the_system_says_so_and_nothing_leaks() -> None:
    assert in_a_subprocess(CROWDED) == "Resource temporarily unavailable\n"


WITHOUT_STREAMS = """
import os
for descriptor in (0, 1, 2):
    os.close(descriptor)
from supervisor.runtime.process import Command, spawn
child, pipes = spawn(Command(["/bin/sh", "-c", "read line; echo got $line; echo bad >&2"], {}))
os.write(pipes.stdin, b"it\\n")
said = os.read(pipes.stdout, 100) + os.read(pipes.stderr, 100)
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
child.reap()
open("/proc/self/fd/9", "wb").write(said)
"""


def test_a_daemon_without_streams_of_its_own_starts_children_that_have_them() -> None:
    script = f"import os; os.dup2(1, 9)\n{WITHOUT_STREAMS}"

    assert in_a_subprocess(script) == "got it\nbad\n"


THREADLESS = """
import threading
from supervisor.errors import SupervisorError
from supervisor.runtime.spawner import Spawner

threading.stack_size(2**46)  # more than any address space has
try:
    Spawner()
except SupervisorError as exc:
    print(exc)
"""


def test_without_threads_that_start_servers_there_is_a_sentence() -> None:
    said = in_a_subprocess(THREADLESS)

    assert said.startswith("cannot have threads that start servers: can't start new thread; allow")


# When we are killed.

MORTAL_PARENT = """
import os, signal, sys
from supervisor.runtime.process import Command, death_signal_prefix, spawn

child, pipes = spawn(Command(["/bin/sleep", "60"], {}), prefix=death_signal_prefix())
while open(f"/proc/{child.pid}/comm").read() != "sleep\\n":
    pass  # until setpriv has done its work
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_direct_child_dies_with_a_parent_that_is_killed(orphans: Orphans) -> None:
    root = str(Path(__file__).parents[2])
    with bystander(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{MORTAL_PARENT}"]
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait(PATIENCE)

        await until(lambda: not alive(child))

        orphans.reap()  # it came to us when its parent died


def test_without_setpriv_there_is_no_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "defpath", "/nowhere")

    assert death_signal_prefix() == ()


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"])
def test_a_setpriv_that_does_not_work_is_not_used(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "setpriv"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    monkeypatch.setattr("supervisor.runtime.process._TRIAL", 0.5)

    assert death_signal_prefix() == ()
    assert "servers will outlive a daemon that is killed" in caplog.text
