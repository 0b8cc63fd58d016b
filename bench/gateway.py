"""What holds the servers behind a socket or a port: the daemon, or a peer, started as its users start it.

Each is started in a session of its own and ended with all that it started.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.contender import Fleet
from bench.peers import PEERS
from bench.peers.install import programs
from bench.processes import PATIENCE, Owned, Stuck, signal_if_alive

RELAY_SERVER = Path(__file__).with_name("relay_server.py")
_GRACE = 5.0
_LAST_WORDS = 10
"""Lines of the log that are shown when something failed."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _written(directory: Path, document: Mapping[str, Any]) -> Path:
    """A configuration that nobody else may change."""
    config = directory / "mcp.json"
    config.write_text(json.dumps(document))
    config.chmod(0o600)
    return config


def _servers(fleet: Fleet, **keys: Any) -> dict[str, Any]:
    if fleet.urls:
        return {f"s{number}": {"url": url} for number, url in enumerate(fleet.urls)}
    command, *arguments = fleet.command
    return {f"s{number}": {"command": command, "args": arguments, **keys} for number in range(fleet.servers)}


class Gateway(Owned, ABC):
    """A program with a log; its last words are shown when its user failed."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._log = directory / "gateway.log"
        with self._log.open("wb") as log:
            super().__init__(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None:
            print(f"the last words of {self.name}:", *self._last_words(), sep="\n  ", file=sys.stderr)
        if self._process.poll() is None:
            self._process.terminate()
        self.finish()

    @abstractmethod
    def finish(self) -> None:
        """Wait for its end, which it was asked for; leave nothing."""

    def _last_words(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()[-_LAST_WORDS:]


class Daemon(Gateway):
    """One daemon of ours: it has to end, and what it started ends with it."""

    def __init__(self, program: Path, fleet: Fleet, directory: Path) -> None:
        # Several daemons run side by side, and there is one port for metrics.
        document = {
            "mcpServers": {**_servers(fleet, stopGrace=fleet.stop_grace), **fleet.beside},
            "supervisor": {"http": False},
        }
        config = _written(directory, document)
        command = [str(program), "run", "--config", str(config), "--socket", fleet.socket]
        homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_RUNTIME_DIR"), str(directory))
        super().__init__("the daemon", command, directory, {**os.environ, **homes})

    def finish(self) -> None:
        """One that has to be killed is an error.

        Raises:
            Stuck: it had to be killed.
        """
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            words = "; ".join(self._last_words())
            raise Stuck(f"cannot end the daemon with SIGTERM; its last words: {words}") from None


class RelayServer(Gateway):
    """A relay of bytes; it ends with its client's connection, and its server with its pipes."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        command = [fleet.python, str(RELAY_SERVER), fleet.socket, *fleet.command]
        super().__init__("the relay", command, directory, os.environ)

    def finish(self) -> None:
        self._process.wait(PATIENCE)


class Peer(Gateway):
    """One peer, with nothing of its users in reach.

    Its servers may leave its process group, and it may leave them behind, so each carries a mark on its
    command line.
    """

    def __init__(self, name: str, fleet: Fleet, directory: Path) -> None:
        self._mark = fleet.mark
        module: Any = import_module(PEERS[name])
        config = _written(directory, {"mcpServers": _servers(fleet)})
        command = module.command(programs(name), fleet, config)
        super().__init__(name, command, directory, _bare_environment(directory))

    def finish(self) -> None:
        """Kill what is left of it, of its group and of its servers."""
        try:
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


def _bare_environment(directory: Path) -> dict[str, str]:
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
