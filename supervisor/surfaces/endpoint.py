"""The control socket as a file: who may listen there, who may connect, and who cleans up.

A lock file beside the socket is held for the daemon's life. Only its holder binds, and only its holder
removes a socket that a dead daemon left. The socket has mode 0600 from the moment it exists. Anything at
that path that is not a socket is left alone. A socket that systemd opened for us is systemd's to guard and
to remove.
"""

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from supervisor.core.paths import private_directory
from supervisor.errors import AlreadyRunning, BadConfig

_BACKLOG = 256
_PRIVATE = 0o177


class Place(Struct, frozen=True):
    """Where the daemon is met."""

    path: str
    inherited: socket.socket | None = None
    """Opened for us by systemd."""


@contextmanager
def listening(place: Place) -> Generator[socket.socket]:
    """A socket that listens there; the file is gone afterwards.

    One that was inherited from systemd is used as it is: it has no lock, and its file stays.

    Raises:
        AlreadyRunning: another daemon listens there.
        BadConfig: no socket can be made there.
    """
    path = place.path
    if place.inherited is not None:
        with place.inherited:
            place.inherited.setblocking(False)  # noqa: FBT003 - the socket's own signature
            yield place.inherited
        return
    _prepare_directory(Path(path).parent)
    with _locked(path):
        _clear(path)
        listener = _bind(path)
        ours = os.lstat(path)
        try:
            yield listener
        finally:
            _remove(path, ours)
            listener.close()


def _prepare_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as exc:
        advice = "choose another place with --socket"
        raise BadConfig(f"cannot use {directory} for the control socket: {exc.strerror}; {advice}") from exc
    if str(directory) == private_directory(os.getuid()) and (
        found.st_uid != os.getuid() or found.st_mode & 0o077
    ):
        raise BadConfig(
            f"cannot trust {directory}: it belongs to somebody else or is open to others; use --socket"
        )


@contextmanager
def _locked(path: str) -> Generator[None]:
    """Hold the lock beside the socket for as long as the block runs."""
    lock = f"{path}.lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise BadConfig(f"cannot open the lock {lock}: {exc.strerror}") from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(descriptor)
        raise AlreadyRunning(
            f"cannot listen at {path}: another daemon does; stop it with mcp-supervisor shutdown, "
            "or choose another place with --socket"
        ) from exc
    try:
        # The lock file stays: removing it would let two daemons hold locks on two files of one name.
        yield
    finally:
        os.close(descriptor)


def _clear(path: str) -> None:
    """Remove a socket that nobody listens at."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise BadConfig(f"cannot listen at {path}: something that is not a socket is there; move it away")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError as exc:
            if exc.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise BadConfig(f"cannot listen at {path}: {exc.strerror}") from exc
        else:
            raise AlreadyRunning(f"cannot listen at {path}: another program answers there")
    Path(path).unlink(missing_ok=True)


def _bind(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(_PRIVATE)
    try:
        listener.bind(path)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
    except OSError as exc:
        listener.close()
        raise BadConfig(f"cannot listen at {path}: {exc.strerror}") from exc
    finally:
        os.umask(before)
    return listener


def _remove(path: str, ours: os.stat_result) -> None:
    """Remove our socket's file, unless somebody has put something else in its place."""
    with suppress(OSError):
        if os.path.samestat(os.lstat(path), ours):
            Path(path).unlink()


def peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and user of whoever is at the other end, as the kernel knows them."""
    size = struct.calcsize("3i")
    pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def may_connect(uid: int) -> bool:
    """Root and ourselves."""
    return uid in (0, os.geteuid())
