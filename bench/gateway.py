"""The process of a peer: started in a session of its own, and ended with all that it started.

Its servers may leave its process group, and it may leave them behind, so each carries a mark on its
command line.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from bench.contender import Fleet
from bench.peers import PEERS
from bench.peers.install import programs
from bench.processes import PATIENCE, signal_if_alive

_GRACE = 5.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    """One peer, started as its users start it, but with nothing of theirs in reach."""

    def __init__(self, name: str, fleet: Fleet, directory: Path) -> None:
        self.name = name
        self._mark = fleet.mark
        self._log = directory / "gateway.log"
        module: Any = import_module(PEERS[name])
        config = directory / "mcp.json"
        command, *arguments = fleet.command
        servers = {f"s{n}": {"command": command, "args": arguments} for n in range(fleet.servers)}
        config.write_text(json.dumps({"mcpServers": servers}))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                module.command(programs(name), fleet, config),
                cwd=directory,
                env=_environment(directory),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit status, when it has ended."""
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Ask it to end; then kill what is left of it, of its group and of its servers."""
        if failure is not None:
            words = self._log.read_text(errors="replace").splitlines()[-5:]
            print(f"the last words of {self.name}:", *words, sep="\n  ", file=sys.stderr)
        try:
            if self._process.poll() is None:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE)
        finally:
            self._kill_all()

    def _kill_all(self) -> None:
        assert self.pid > 1
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for pid in marked(self._mark):
            signal_if_alive(pid, signal.SIGKILL)


def _environment(directory: Path) -> dict[str, str]:
    """What a peer sees: no proxies, no settings and no state of the user."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    homes = ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    return kept | dict.fromkeys(homes, str(directory))


def marked(mark: str) -> list[int]:
    """The servers that carry this mark."""
    option = f"--mark={mark}".encode()
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if option in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
