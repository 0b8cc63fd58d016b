"""Changing a configuration file in place of the user: all or nothing, and never to something worse.

The new text is judged as `check` would judge it before anything is written; then it is written beside the
file, made durable, and renamed over it with the owner and mode of the old one. Whoever reads the file sees
the one or the other. What is shown of a change has its secrets blotted out.
"""

import difflib
import fcntl
import io
import os
import secrets
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.core.concealment import concealed
from supervisor.core.document import DocumentError, is_blank
from supervisor.core.edit import add_server, remove_server
from supervisor.core.layers import Candidate, Layer, candidates, merged_settings, read_layer
from supervisor.errors import BadConfig
from supervisor.runtime.trust import read_trusted

_NEW_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Edited:
    """What was done to a file, or would be."""

    path: Path
    difference: str
    """A unified diff, without secrets; empty when nothing changed."""


def add(path: Path, servers: Mapping[str, Mapping[str, Any]], *, dry_run: bool = False) -> Edited:
    """Add servers to the file, which need not exist yet.

    Raises:
        AlreadyThere: One of them is there.
        BadConfig: An entry is wrong, or the file cannot be used or written.
    """

    def change(text: str) -> str:
        for name, entry in servers.items():
            text = add_server(text, name, entry, file=str(path))
        return text

    return _edit(path, change, dry_run=dry_run)


def remove(path: Path, name: str, *, dry_run: bool = False) -> Edited:
    """Remove a server from the file.

    Raises:
        UnknownServer: It is not there.
        BadConfig: The file cannot be used or written.
    """
    return _edit(path, lambda text: remove_server(text, name, file=str(path)), dry_run=dry_run)


def _edit(path: Path, change: Callable[[str], str], *, dry_run: bool) -> Edited:
    # A link stays a link: the file that it leads to is the one to change.
    target = path.resolve()
    try:
        if dry_run or not target.parent.exists():
            # What is refused leaves not even a directory behind.
            preview = _changed(path, target, change)[0]
            if dry_run:
                return preview
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone_in(target.parent):
            edited, text = _changed(path, target, change)
            _replace(target, text.encode())
            return edited
    except OSError as error:
        raise BadConfig(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error


def _changed(path: Path, target: Path, change: Callable[[str], str]) -> tuple[Edited, str]:
    before = _content(target)
    try:
        text = before.decode()
    except UnicodeDecodeError:
        raise BadConfig(f"cannot edit {path}: the text is not UTF-8; save it as UTF-8") from None
    try:
        after = change(text)
    except DocumentError as error:
        place = f"line {error.line}, column {error.column}"
        raise BadConfig(f"cannot edit {path}: {place}: {error.reason}") from error
    _judge(path, text, after)
    return Edited(path, _difference(path, text, after)), after


def _content(path: Path) -> bytes:
    try:
        return read_trusted(path)
    except FileNotFoundError:
        return b""


def _judge(path: Path, before: str, after: str) -> None:
    """Refuse a text in which something is wrong that was not wrong before."""
    known = set[str]() if is_blank(before) else _problems(before.encode(), path)
    new = sorted(_problems(after.encode(), path) - known)
    if new:
        raise BadConfig(f"cannot change {path}: {'; '.join(new)}", problems=new)


def _problems(content: bytes, path: Path) -> set[str]:
    layer = read_layer(content, file=str(path))
    parts: list[Layer | Candidate] = [layer, *candidates([layer], merged_settings([layer]).defaults)]
    return {str(problem) for part in parts for problem in part.problems}


def _difference(path: Path, before: str, after: str) -> str:
    old, new = (list(io.StringIO(concealed(text), newline="\n")) for text in (before, after))
    return "".join(map(_whole_line, difflib.unified_diff(old, new, str(path), str(path))))


def _whole_line(line: str) -> str:
    """The line of a difference with an end, and as `diff` says it, where the file had none."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


@contextmanager
def _alone_in(directory: Path) -> Generator[None]:
    """Keep others of us out: two that edit at once would lose one edit."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _NEW_FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            _take_after(path, descriptor)
            os.fsync(descriptor)
        fresh.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            fresh.unlink()
        raise


def _take_after(path: Path, descriptor: int) -> None:
    """Give the new file the owner and the mode of the one whose place it takes."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
