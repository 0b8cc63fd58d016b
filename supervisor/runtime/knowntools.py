"""What lazy servers listed last, kept in the state directory: a file per launch, named by its fingerprint.

So a server can be offered before it is started, also by the next daemon. A changed command has another
fingerprint and is not believed. A file that is lost or broken costs one start of its server and nothing
else. Nothing here knows which servers there are, and no secret may be handed to it.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

logger = logging.getLogger(__name__)

MOST_BYTES = 8 * 1024 * 1024
"""How large the list of one server may be; a larger one is learned anew by each daemon."""
MOST_FILES = 256
"""How many lists are kept; the one that was used longest ago goes first."""


class _File(msgspec.Struct):
    tools: list[msgspec.Raw]


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in the place of another, whole and for its owner alone.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Another daemon may be at the same file.
    fresh = path.with_suffix(f".{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor, not a path
            stream.write(content)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


class KnownTools:
    """Tool definitions by the fingerprint of what lists them."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.failed_writes = 0
        """How many lists could not be written down."""

    def recall(self, fingerprint: str) -> list[msgspec.Raw] | None:
        """What a server with this launch listed last; None when that is not known."""
        if self._directory is None:
            return None
        path = self._path(self._directory, fingerprint)
        try:
            with path.open("rb") as stream:
                found = msgspec.json.decode(stream.read(MOST_BYTES), type=_File)
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError) as exc:
            logger.warning("cannot use %s, so its server is started to list its tools: %s", path, exc)
            return None
        return found.tools

    def keep(self, fingerprint: str, definitions: Sequence[bytes | msgspec.Raw]) -> None:
        """Remember what a server listed, unless it is too much."""
        if self._directory is None:
            return
        path = self._path(self._directory, fingerprint)
        content = b'{"tools":[%b]}' % b",\n".join(map(bytes, definitions))
        try:
            if len(content) > MOST_BYTES:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != content:
                replace_file(path, content)
                self._make_room(self._directory)
        except OSError as exc:
            self.failed_writes += 1
            logger.warning("cannot write %s, so its tools are forgotten at the next start: %s", path, exc)

    def forget(self, fingerprint: str) -> None:
        if self._directory is not None:
            self._path(self._directory, fingerprint).unlink(missing_ok=True)

    @staticmethod
    def _path(directory: Path, fingerprint: str) -> Path:
        return directory / f"{fingerprint}.json"

    @staticmethod
    def _make_room(directory: Path) -> None:
        files = sorted(directory.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-MOST_FILES]:
            path.unlink(missing_ok=True)
