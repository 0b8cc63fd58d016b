"""What the daemon remembers across its own restarts: a small JSON file in the state directory.

Losing it costs a little time at the next start and nothing else, so every failure to read or write it is
logged and lived with.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from supervisor.runtime.knowntools import KnownTools, replace_file

logger = logging.getLogger(__name__)

_SHAPES: Mapping[str, type] = {"noProbe": list, "overrides": dict}
"""What each fact must be; one of another shape is forgotten."""


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

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._facts: dict[str, Any] = self._read()
        self.silent: dict[tuple[str, str], bool] = {}
        """Servers and launches that died without a word both ways, and whether the last one was asked
        `server/discover`.

        Only for this life of the daemon.
        """
        self.tools = KnownTools(None if path is None else path.with_name("tools"))

    def cannot_take_a_probe(self, fingerprint: str) -> bool:
        """Whether a server with this launch once died of, or ignored, `server/discover`."""
        return fingerprint in self._facts.get("noProbe", [])

    def remember_no_probe(self, fingerprint: str) -> None:
        known = self._facts.setdefault("noProbe", [])
        if fingerprint not in known:
            known.append(fingerprint)
            self._write()

    @property
    def overrides(self) -> Mapping[str, bool]:
        """Servers that an operator has enabled or disabled, whatever the files say."""
        return dict(self._facts.get("overrides", {}))

    def override(self, server: str, *, enabled: bool) -> None:
        self._facts.setdefault("overrides", {})[server] = enabled
        self._write()

    def forget_override(self, server: str) -> None:
        """Let the files say again whether the server is enabled."""
        if self._facts.get("overrides", {}).pop(server, None) is not None:
            self._write()

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
            replace_file(self._path, json.dumps(self._facts, indent=1).encode())
        except OSError as exc:
            logger.warning("cannot write %s, so this is forgotten at the next start: %s", self._path, exc)
