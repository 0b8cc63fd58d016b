"""The control socket as a file: its mode, its lock, and what is found at its path."""

import ctypes
import fcntl
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.support import PATIENCE, Client, Daemon, Launcher, answers, fake, until

IN_ATTRIB, IN_CREATE, IN_MOVED_TO, IN_DELETE = 0x4, 0x100, 0x80, 0x200
NOBODY = 65534
AS_SOMEBODY_ELSE = f"""
import os, socket
os.seteuid({NOBODY})
client = socket.socket(socket.AF_UNIX)
client.settimeout({PATIENCE})
client.connect("control.sock")
try:
    client.sendall(b'{{"jsonrpc":"2.0","id":1,"method":"supervisor/ping"}}\\n')
    print(client.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""


@contextmanager
def watching(directory: Path) -> Iterator[int]:
    """An inotify descriptor that tells what is created, changed in mode, moved and deleted there."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    mask = IN_ATTRIB | IN_CREATE | IN_MOVED_TO | IN_DELETE
    assert libc.inotify_add_watch(descriptor, os.fsencode(directory), mask) >= 0
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def events(descriptor: int, name: str) -> Iterator[int]:
    """What has happened to the file of that name so far, in order."""
    content = os.read(descriptor, 1 << 20)
    while content:
        _, mask, _, length = struct.unpack_from("iIII", content)
        if content[16 : 16 + length].rstrip(b"\0").decode() == name:
            yield mask
        content = content[16 + length :]


def identity(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def stale(path: Path) -> None:
    """Leave a socket that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def refused(launcher: Launcher, *, status: int) -> str:
    """The one error of a daemon that does not start."""
    daemon = launcher.spawn()
    assert daemon.wait() == status
    [message] = daemon.said("error")
    return message


@pytest.fixture
def daemon(launcher: Launcher) -> Daemon:
    return launcher.start({"one": fake()})


def test_the_socket_is_private_from_birth_whatever_the_umask(launcher: Launcher) -> None:
    launcher.configure({})
    with watching(launcher.directory) as descriptor:
        daemon = launcher.spawn(umask=0)
        until(lambda: answers(daemon))
        happened = list(events(descriptor, launcher.socket.name))

    # Created under its own name, and its mode never changed: so it has always been what it is.
    assert happened == [IN_CREATE]
    assert mode(launcher.socket) == 0o600
    assert mode(Path(f"{launcher.socket}.lock")) == 0o600


def test_a_directory_that_is_missing_is_made_for_the_owner_alone(launcher: Launcher) -> None:
    launcher.socket = launcher.directory / "made" / "for" / "control.sock"

    launcher.start({})

    assert mode(launcher.socket.parent) == 0o700


def test_the_lock_is_held_for_life_and_free_afterwards(daemon: Daemon) -> None:
    with Path(f"{daemon.socket}.lock").open("rb") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        daemon.end()
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_is_not_inherited_by_children(daemon: Daemon) -> None:
    descriptors = daemon.client.text("one_fds")

    assert ".lock" not in descriptors
    assert len(descriptors.split(",")) == 3


def test_a_stale_socket_is_replaced(launcher: Launcher) -> None:
    stale(launcher.socket)

    daemon = launcher.start({})

    assert daemon.client.result("supervisor/ping") == {}
    assert mode(launcher.socket) == 0o600


def test_what_a_killed_daemon_left_is_replaced(daemon: Daemon, launcher: Launcher) -> None:
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    assert launcher.socket.is_socket()

    assert launcher.start({}).client.result("supervisor/ping") == {}


def test_a_second_daemon_is_refused_and_the_first_goes_on(daemon: Daemon, launcher: Launcher) -> None:
    before, pid = identity(launcher.socket), daemon.client.server("one")["pid"]

    message = refused(launcher, status=1)

    assert message.startswith(f"cannot listen at {launcher.socket}: another daemon does")
    assert identity(launcher.socket) == before
    assert daemon.client.server("one")["pid"] == pid
    assert daemon.client.text("one_counter") == "1"


def test_of_daemons_started_together_exactly_one_runs(launcher: Launcher) -> None:
    launcher.configure({"one": fake()})
    daemons = [launcher.spawn() for _ in range(4)]

    until(lambda: sum(daemon.process.poll() is None for daemon in daemons) == 1)

    [running] = [daemon for daemon in daemons if daemon.process.poll() is None]
    until(lambda: answers(running))
    assert running.client.result("supervisor/info")["pid"] == running.process.pid
    assert sorted(daemon.process.returncode for daemon in daemons if daemon is not running) == [1, 1, 1]


def test_another_program_that_listens_there_is_left_alone(launcher: Launcher) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(launcher.socket))
        other.listen()
        before = identity(launcher.socket)

        message = refused(launcher, status=1)

        assert message == f"cannot listen at {launcher.socket}: another program answers there"
        assert identity(launcher.socket) == before


@pytest.mark.parametrize("kind", ["file", "directory", "fifo", "symlink to a file", "dangling symlink"])
def test_what_is_no_socket_is_refused_and_untouched(launcher: Launcher, kind: str) -> None:
    path, target = launcher.socket, launcher.directory / "target"
    match kind:
        case "file":
            path.write_text("precious", encoding="utf-8")
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "symlink to a file":
            target.write_text("precious", encoding="utf-8")
            path.symlink_to(target)
        case _:
            path.symlink_to(target)
    before = identity(path)

    message = refused(launcher, status=78)

    assert message == f"cannot listen at {path}: something that is not a socket is there; move it away"
    assert identity(path) == before
    if kind in ("file", "symlink to a file"):
        assert path.read_text(encoding="utf-8") == "precious"


def test_a_symlink_to_a_socket_is_not_followed(launcher: Launcher) -> None:
    target = launcher.directory / "elsewhere.sock"
    stale(target)
    launcher.socket.symlink_to(target)

    assert "not a socket" in refused(launcher, status=78)
    assert launcher.socket.is_symlink()
    assert target.is_socket()


def test_a_symlink_in_the_place_of_the_lock_is_not_followed(launcher: Launcher) -> None:
    target = launcher.directory / "precious"
    Path(f"{launcher.socket}.lock").symlink_to(target)

    assert refused(launcher, status=78).startswith("cannot open the lock")
    assert not target.exists()


def test_a_path_that_is_too_long_is_refused_with_the_reason(launcher: Launcher) -> None:
    launcher.socket = launcher.directory / ("x" * 120)

    message = refused(launcher, status=78)

    assert message.startswith(f"cannot use '{launcher.socket}' as the control socket: it has ")
    assert "the system allows 107; choose a shorter path" in message


def test_the_socket_is_gone_after_sigterm(daemon: Daemon) -> None:
    daemon.end()

    assert not daemon.socket.exists()


def test_what_somebody_put_in_its_place_is_left_there(daemon: Daemon) -> None:
    daemon.socket.unlink()
    daemon.socket.write_text("precious", encoding="utf-8")

    daemon.end()

    assert daemon.socket.read_text(encoding="utf-8") == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_refused_even_if_the_mode_would_let_him_in(daemon: Daemon) -> None:
    daemon.socket.chmod(0o666)
    daemon.socket.parent.chmod(0o755)

    answer = subprocess.run(
        [sys.executable, "-c", AS_SOMEBODY_ELSE],
        cwd=daemon.socket.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )

    assert answer.stdout == "b''\n"
    [warning] = until(lambda: daemon.said("warning"))
    assert warning.startswith(f"refusing a connection of user {NOBODY}")
    with Client(daemon.socket) as client:
        assert client.result("supervisor/ping") == {}
