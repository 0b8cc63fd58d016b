"""What the daemon remembers across its own restarts: a small JSON file in the state directory.

Daemons of one user share it: which launches cannot take a probe is true for all, what an operator enabled or
disabled belongs to the daemons on one control socket. Losing the file costs a little time at the next start
and that word of the operator, so every failure to read or write it is logged and lived with.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from supervisor.runtime.knowntools import KnownTools, replace_file

logger = logging.getLogger(__name__)

_SHAPES: Mapping[str, type] = {"noProbe": list, "overrides": dict}
"""What each fact must be; one of another shape is forgotten."""
_TRIES = 40
_PAUSE = 0.005
"""Seconds between two tries to lock the file; others hold it for as long as a write takes."""


def state_directory(environ: Mapping[str, str]) -> Path | None:
    """Where to remember things: systemd's directory, else the user's; None when there is no home."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.partition(":")[0])
    if base := environ.get("XDG_STATE_HOME"):
        return Path(base, "mcp-supervisor")
    if home := environ.get("HOME"):
        return Path(home, ".local", "state", "mcp-supervisor")
    return None


class Memory:
    """Facts by name, kept in one file that is replaced as a whole."""

    def __init__(self, path: Path | None, *, instance: str = "") -> None:
        """Remember for the daemons of this instance, see `orphans.instance_of`."""
        self._path, self._instance = path, instance
        facts = self._read()
        self._no_probe: list[str] = facts.get("noProbe", [])
        self._took_a_probe: set[str] = set()
        """Launches of which the file may still say that they cannot."""
        self._overrides: dict[str, bool] = _of_instance(facts, instance)
        self.silent: dict[tuple[str, str], bool] = {}
        """Servers and launches that died without a word both ways, and whether the last one was asked
        `server/discover`.

        Only for this life of the daemon.
        """
        self.tools = KnownTools(None if path is None else path.with_name("tools"))
        self._failed_writes = 0

    def cannot_take_a_probe(self, fingerprint: str) -> bool:
        """Whether a server with this launch once died of, or ignored, `server/discover`."""
        return fingerprint in self._no_probe

    def remember_no_probe(self, fingerprint: str) -> None:
        if fingerprint not in self._no_probe:
            self._no_probe.append(fingerprint)
            self._took_a_probe.discard(fingerprint)
            self._write()

    def forget_no_probe(self, fingerprint: str) -> None:
        """A server with this launch has answered `server/discover` after all."""
        if fingerprint in self._no_probe:
            self._no_probe.remove(fingerprint)
            self._took_a_probe.add(fingerprint)
            self._write()

    @property
    def overrides(self) -> Mapping[str, bool]:
        """Servers that an operator has enabled or disabled, whatever the files say."""
        return dict(self._overrides)

    def override(self, server: str, *, enabled: bool) -> None:
        self._overrides[server] = enabled
        self._write()

    def forget_override(self, server: str) -> None:
        """Let the files say again whether the server is enabled."""
        if self._overrides.pop(server, None) is not None:
            self._write()

    @property
    def failed_writes(self) -> int:
        """How often something could not be written down."""
        return self._failed_writes + self.tools.failed_writes

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            facts = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            logger.warning("cannot read %s, so nothing is remembered: %s", self._path, exc)
            return {}
        known = cast("dict[str, Any]", facts) if isinstance(facts, dict) else {}
        return {name: fact for name, fact in known.items() if isinstance(fact, _SHAPES.get(name, object))}

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            with _locked(self._path):
                facts = self._read()
                self._put_in(facts)
                replace_file(self._path, json.dumps(facts, indent=1).encode())
        except OSError as exc:
            self._failed_writes += 1
            logger.warning("cannot write %s, so this is forgotten at the next start: %s", self._path, exc)

    def _put_in(self, facts: dict[str, Any]) -> None:
        """Add what this daemon knows to what others have written; of its own instance only it knows."""
        known = dict.fromkeys((*facts.pop("noProbe", []), *self._no_probe))
        self._no_probe = [each for each in known if each not in self._took_a_probe]
        if self._no_probe:
            facts["noProbe"] = self._no_probe
        overrides = {**facts.pop("overrides", {}), self._instance: self._overrides}
        if known := {instance: switched for instance, switched in overrides.items() if switched}:
            facts["overrides"] = known


def _of_instance(facts: Mapping[str, Any], instance: str) -> dict[str, bool]:
    known = facts.get("overrides", {}).get(instance)
    found = cast("dict[str, Any]", known) if isinstance(known, dict) else {}
    return {name: word for name, word in found.items() if isinstance(word, bool)}


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Keep other daemons from writing meanwhile; one that holds the lock and hangs is not waited for.

    Raises:
        OSError: there is no room for the lock.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE)  # noqa: TID251 - facts are noted in plain calls, and others are quick
        else:
            logger.warning("%s is locked by another daemon that hangs; writing it nevertheless", path)
        yield
    finally:
        os.close(descriptor)
