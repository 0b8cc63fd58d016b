"""Child processes: started, watched, signalled as a group, and proven gone.

`spawn` starts a command as the leader of its own session and process group and returns a `Child`. Its exit
is seen through a pidfd, never by polling and never by the end of a pipe. The dead leader is reaped last,
when its group is empty: as long as it is a zombie its number cannot be given to another process, so a
signal to the group can never hit a stranger.

Nobody here decides when to signal: that is the lifecycle's. Pid 0, 1, -1 and our own group are never
signalled, whatever the caller says.
"""

import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from supervisor.core.phases import End
from supervisor.core.servers import Launch, child_environment
from supervisor.runtime import posixspawn, proctable
from supervisor.runtime.census import Census

logger = logging.getLogger(__name__)

_PIPE_BYTES = 1024 * 1024
_STDERR = 2
_TRIAL = 5.0
"""Seconds for a program that does nothing to end."""


class CannotStart(Exception):
    """The command cannot be started, and trying again will not help."""


class Command(Struct, frozen=True):
    """What to start. `argv[0]` is looked up on the PATH of `env`, relative paths from `cwd`."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None


def command_of(launch: Launch, environ: Mapping[str, str]) -> Command:
    """What a run starts; of the daemon's own environment it gets a small part."""
    argv = [launch.command.value, *(argument.value for argument in launch.args)]
    cwd = None if launch.cwd is None else launch.cwd.value
    return Command(argv, child_environment(launch, environ), cwd)


class Pipes(Struct, frozen=True):
    """Our ends of the child's standard streams; whoever holds this closes them."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        _close((self.stdin, self.stdout, self.stderr))


def find_executable(command: Command) -> str:
    """The file that `argv[0]` means.

    Raises:
        CannotStart: there is none, or it may not be executed; `why` says where it was looked for.
    """
    name, here = command.argv[0], Path(command.cwd or ".")
    if os.sep in name:
        candidate = here / name
        if not candidate.exists():
            raise CannotStart(f"cannot find {name}: no such file")
        if not candidate.is_file() or not os.access(candidate, os.X_OK):
            raise CannotStart(f"cannot execute {name}: it is not an executable file (chmod +x it)")
        return str(candidate.absolute())
    found = _which(name, command.env.get("PATH", os.defpath), here)
    if found is None:
        raise CannotStart(f"cannot find the command {name} on PATH; give its full path or set env.PATH")
    return found


def _which(name: str, path: str, here: Path) -> str | None:
    """What shutil does, without the archive formats that it imports first, and from `here` on."""
    if not path or "\0" in name + path:
        return None
    candidates = ((here / directory / name).absolute() for directory in path.split(os.pathsep))
    return next((str(each) for each in candidates if os.access(each, os.X_OK) and not each.is_dir()), None)


def death_signal_prefix() -> tuple[str, ...]:
    """What to put before a command so that it dies with us even when we are killed with SIGKILL.

    Tried once, as an old or a sandboxed setpriv cannot do it and would take every child down with it.

    Raises:
        OSError: it cannot be tried now.
    """
    setpriv = _which("setpriv", os.defpath + ":/usr/sbin:/sbin", Path("/"))
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    try:
        subprocess.run([*prefix, "true"], capture_output=True, check=True, timeout=_TRIAL)
    except subprocess.SubprocessError as exc:
        logger.warning("servers will outlive a daemon that is killed, until the next one starts: %s", exc)
        return ()
    return prefix


def spawn(
    command: Command, *, prefix: Sequence[str] = (), census: Census | None = None
) -> "tuple[Child, Pipes]":
    """Start the command. The thread that calls this has to outlive it: the death signal is tied to it.

    Raises:
        CannotStart: trying again will not help; see `find_executable`.
        OSError: the system refuses (too many files, too many processes); trying again may help.
    """
    _check(command)
    executable = find_executable(command)
    if command.cwd is not None and not Path(command.cwd).is_dir():
        raise CannotStart(f"cannot start in {command.cwd}: no such directory")
    with contextlib.ExitStack() as on_failure:
        stdin, stdout, stderr = (_pipe(on_failure) for _ in range(3))
        _widen(stdout[0])
        began = proctable.clock()
        argv, streams = [*prefix, executable, *command.argv[1:]], (stdin[0], stdout[1], stderr[1])
        pid = _started(argv, command, streams)
        on_failure.callback(_undo, pid)
        child = Child(pid, began, census or Census())
        on_failure.pop_all()
    _close(streams)
    return child, Pipes(stdin=stdin[1], stdout=stdout[0], stderr=stderr[0])


def _check(command: Command) -> None:
    """Refuse what no program can be given."""
    texts = (*command.argv, *command.env, *command.env.values(), command.cwd or "")
    if any("\0" in text for text in texts):
        raise CannotStart(
            "cannot start it: an argument, a variable or cwd holds a NUL character; take it out"
        )
    try:
        for text in texts:
            os.fsencode(text)
    except UnicodeEncodeError as exc:
        encoding = f"{exc.encoding} (LANG, LC_ALL)"
        raise CannotStart(
            f"cannot start it: an argument, a variable or cwd has no form in {encoding}; use UTF-8"
        ) from exc


def _started(argv: Sequence[str], command: Command, streams: tuple[int, int, int]) -> int:
    """The pid of a new process, which is ours to wait for."""
    if posixspawn.available():
        return posixspawn.start(argv, command.env, streams, command.cwd)
    stdin, stdout, stderr = streams
    # Our thread may have been made while signals had to wait, and a child would inherit that.
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(command.env),
            cwd=command.cwd,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    process.returncode = 0  # its end is not for the library to wait for
    return process.pid


def _undo(pid: int) -> None:
    """End a child of ours that cannot be watched."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _pipe(on_failure: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose ends have numbers above the first three, also when we have no streams of our own."""
    ends = list(os.pipe())
    on_failure.callback(_close, ends)
    for at, low in enumerate(ends):
        if low <= _STDERR:
            ends[at] = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
            os.close(low)
    return ends[0], ends[1]


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _widen(descriptor: int) -> None:
    """Let a pipe hold more: a large result then takes a few turns and not one for every 64 KiB."""
    with contextlib.suppress(OSError):  # a user has only so much; the pipe then stays as it was
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class Child:
    """One process that we started, and its group."""

    def __init__(self, pid: int, began: int, census: Census) -> None:
        self._census = census
        self._pidfd = os.pidfd_open(pid)
        self._status: End | None = None
        self._reaped = self._killed = False
        self._memory_kills = proctable.memory_kills()
        self.pid = pid
        self.since = time.time()
        self.began = began
        """A moment of `proctable.clock` before it was there: to ask for its own start waits for its exec."""

    async def exited(self) -> End:
        """Wait until the leader has exited; it stays a zombie until `reap`."""
        while self._status is None:
            await anyio.wait_readable(self._pidfd)
            self._status = self._peek()
        return self._status

    @property
    def has_exited(self) -> bool:
        """Whether the leader has exited, although nobody may have been told yet."""
        return self._status is not None or self._peek() is not None

    def _peek(self) -> End | None:
        found = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return End(f"exited with code {found.si_status}", code=found.si_status)
        number = found.si_status
        starved = number == signal.SIGKILL and not self._killed and self._memory_ran_out()
        meanwhile = "; the kernel has killed for want of memory since it started" if starved else ""
        return End(f"killed by signal {number} ({_signal_name(number)}){meanwhile}", signal=number)

    def _memory_ran_out(self) -> bool:
        """Whether the kernel is known to have killed for want of memory since the child was there."""
        before, now = self._memory_kills, proctable.memory_kills()
        return before is not None and now is not None and now > before

    def signal(self, number: int) -> None:
        """Send a signal to the whole group."""
        if not self._reaped:
            self._killed |= number == signal.SIGKILL
            signal_group(self.pid, number)

    async def group_is_empty(self) -> bool:
        """Whether nothing of the group is alive any more, the leader included."""
        if self.has_exited and self._census.nothing_is_left():
            return True
        return not (await self._census.taken()).group(self.pid)

    async def emptied(self) -> None:
        """Wait until the group is empty; there is no event for that, so past the leader's exit we poll."""
        await self.exited()
        pause = 0.002
        while not await self.group_is_empty():
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.05)

    def reap(self) -> None:
        """Let go of the dead leader; its number may be used again after this.

        One that the kernel still holds is left to whoever reaps the adopted: waiting would stop the loop.
        """
        if self._reaped:
            return
        self._reaped = True
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                self._census.forsaken.add(self.pid)
        os.close(self._pidfd)


def signal_group(group: int, number: int) -> None:
    """Signal a process group; one that is gone is fine.

    Raises:
        ValueError: the group is not one that a server could have.
    """
    if group <= 1 or group == os.getpgrp():
        raise ValueError(f"refusing to signal process group {group}")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def signal_process(pid: int, started: int, number: int) -> bool:
    """Signal one process, if it is still the one that started then; tells whether it was."""
    if pid <= 1 or pid == os.getpid():
        raise ValueError(f"refusing to signal process {pid}")
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # With the pidfd held, the number cannot change its owner between this look and the signal.
        now = proctable.entry(pid)
        if now is None or now.started != started:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    else:
        return True
    finally:
        os.close(pidfd)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
