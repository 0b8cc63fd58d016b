"""Reading a file only when nobody else could have written it.

A configuration says which programs the daemon starts, so whoever can change it owns the daemon. The file is
opened first and the open descriptor is judged, not the name; then every directory and symbolic link on the
way to it, because whoever can rename there can swap the file. Links are followed, as Kubernetes needs them.

Trusted owners are root and the daemon's own user. Write permission for the owner's private group (a group
with no other member) counts as the owner's own, because umask 002 gives it.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from supervisor.errors import BadConfig

MAX_BYTES = 16 * 1024 * 1024
_CHUNK = 64 * 1024
"""Bytes per read: the buffer of a read is as large as what is asked for, however little comes."""
_MAX_LINKS = 40


class Untrusted(BadConfig):
    """Somebody else could have written the file."""


class Unreadable(BadConfig):
    """The file cannot be read, or is nothing that one reads."""


def read_trusted(path: Path) -> bytes:
    """The content of a file that only root or we can have written.

    Raises:
        FileNotFoundError: It does not exist.
        Untrusted: Somebody else may write it, or may swap it for another.
        Unreadable: It is not a regular file, is too large, or the system refuses.
    """
    try:
        # A FIFO or a device must not make us wait: without a writer, opening it would.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            _check_file(path, os.fstat(descriptor))
            for place, status in _way_to(path):
                _check(place, status)
            return _read(path, descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(f"cannot read {path}: it is not a regular file; name a file")
    _check(path, status)


def _read(path: Path, descriptor: int) -> bytes:
    chunks: list[bytes] = []
    left = MAX_BYTES + 1
    while left and (chunk := os.read(descriptor, min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    if not left:
        raise Unreadable(f"cannot read {path}: it is larger than {MAX_BYTES} bytes; make it smaller")
    return b"".join(chunks)


def _way_to(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every directory and symbolic link that leads to the file, as the kernel walks them."""
    here = Path("/")
    ahead = list(reversed(path.absolute().parts[1:]))
    yield here, here.lstat()
    links = 0
    while ahead:
        step = here / ahead.pop()
        status = step.lstat()
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise Unreadable(f"cannot read {path}: too many symbolic links lead to it; name the file")
            target = step.readlink()
            here = Path("/") if target.is_absolute() else here
            ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        elif stat.S_ISDIR(status.st_mode):
            here = here.parent if step.name == ".." else step
        yield step, status


def _check(place: Path, status: os.stat_result) -> None:
    complaint = judge(place, status, uid=os.geteuid(), group_is_private=_is_private(status))
    if complaint is not None:
        raise Untrusted(f"cannot trust {place}: {complaint}")


def judge(place: Path, status: os.stat_result, *, uid: int, group_is_private: bool) -> str | None:
    """Why a file, directory or link with this status is not to be trusted by this user, and the remedy."""
    name = shlex.quote(str(place))
    if status.st_uid not in {0, uid}:
        return f"it belongs to user {status.st_uid}; run chown {uid} {name}"
    is_sticky_directory = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(status.st_mode) or is_sticky_directory:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"everybody may write it; run chmod o-w {name}"
    if status.st_mode & stat.S_IWGRP and not group_is_private:
        return f"group {status.st_gid} may write it; run chmod g-w {name}"
    return None


def _is_private(status: os.stat_result) -> bool:
    """Whether the group is the owner's primary group and has no other member."""
    if not status.st_mode & stat.S_IWGRP:
        return True
    try:
        owner = pwd.getpwuid(status.st_uid)
        members = set(grp.getgrgid(status.st_gid).gr_mem)
    except KeyError:
        return False
    members |= {user.pw_name for user in pwd.getpwall() if user.pw_gid == status.st_gid}
    return owner.pw_gid == status.st_gid and members <= {owner.pw_name}
