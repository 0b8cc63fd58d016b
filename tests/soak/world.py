"""The fleet of a soak: servers of every temper, the daemon that owns them, and what can be read of both."""

import json
import os
import re
import signal
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.runtime.proctable import children, entry
from tests.e2e.support import Client, Daemon, Json, Launcher, answers, environment, fake, launching, until
from tests.files import save
from tests.soak.remotes import Remote, listening

SETTINGS: Json = {"http": {"port": 0}, "policy": "open"}
TOKEN = "MCP_SUPERVISOR_RUN"
TEMPERS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("--era", "legacy"),
    ("--era", "modern"),
    ("--grandchild", "group"),
    ("--grandchild", "setsid"),
    ("--grandchild", "double-fork", "--grandchild-ignores-term"),
    ("--ignore-sigterm", "--ignore-eof"),
    ("--garbage", "--stderr-flood", "20000"),
    ("--slow-start", "0.2"),
)
REMOTES = 4
"""HTTP servers, besides those that the daemon starts."""
CRASHING = "crash"
"""The server that ends at each start, by design, until it is given up."""
RESTART = {"policy": "always", "delay": 0.1, "maxDelay": 0.2, "maxFailures": 10_000}
_SAMPLE = re.compile(r"^mcp_supervisor_(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def servers(number: int) -> dict[str, Json]:
    """So many entries; each fifth is lazy and soon asleep, the last crashes until it is given up."""
    fleet: dict[str, Json] = {}
    for index in range(number - 1):
        keys: Json = {"restart": RESTART, "stopGrace": 0.5, "callTimeout": 20}
        if index % 5 == 0:
            keys |= {"start": "lazy", "idleTimeout": 1}
        fleet[f"s{index:02}"] = fake(*TEMPERS[index % len(TEMPERS)], **keys)
    crashing = {"policy": "always", "delay": 0.1, "maxFailures": 3}
    fleet[CRASHING] = fake("--exit-at", "spawn", restart=crashing)
    return fleet


@dataclass(slots=True)
class World:
    """One daemon under soak."""

    launcher: Launcher
    daemon: Daemon
    entries: dict[str, Json]
    operator: Client
    remotes: list[Remote] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """The promises that were not kept, in words."""
    orphans: int = 0
    """Processes of runs that were over, found at rest."""
    undead: int = 0
    """Zombies found at rest."""

    def states(self) -> dict[str, Json]:
        return {server["name"]: server for server in self.operator.result("servers/list")["servers"]}

    @property
    def names(self) -> list[str]:
        """The servers that the daemon starts and that are good for something."""
        return [name for name in self.entries if name != CRASHING and "command" in self.entries[name]]

    @property
    def noisy_names(self) -> list[str]:
        """Those of them that write much to standard error."""
        return [name for name in self.names if "--stderr-flood" in self.entries[name]["args"]]

    @property
    def remote_names(self) -> list[str]:
        return [remote.name for remote in self.remotes]

    def kill(self, pid: int | None) -> None:
        """End one process of a server, if it has one."""
        if pid is not None and pid > 1:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_all(self) -> None:
        """Have every server up that can be, and wait for it."""
        for name in self.entries:
            if name != CRASHING:
                answer = self.operator.reply("servers/start", server=name)
                if "error" in answer:
                    self.broken.append(f"{name} did not start at rest: {answer['error']['message']}")

    def write(self, entries: dict[str, Json]) -> None:
        """Replace the configuration, as an editor does."""
        save(self.launcher.config, json.dumps({"mcpServers": entries, "supervisor": SETTINGS}))

    # What the kernel says.

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))  # noqa: PTH208 - only their number counts

    def resident(self) -> int:
        """Bytes of memory that the daemon holds."""
        pages = Path(f"/proc/{self.daemon.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def zombies(self) -> list[int]:
        found = (entry(pid) for pid in children(self.daemon.process.pid))
        return [process.pid for process in found if process is not None and process.zombie]

    def runs(self) -> dict[str, set[str]]:
        """The serial numbers of the runs that have a living process, by server."""
        found: dict[str, set[str]] = {}
        for pid in self.daemon.tokened():
            for item in environment(pid):
                name, _, value = item.decode(errors="replace").partition("=")
                if name == TOKEN:
                    _, _, serial, server = value.rsplit(":", 3)
                    found.setdefault(server, set()).add(serial)
        return found

    def strays(self) -> list[str]:
        """The servers that have a process although they do not run, or have two runs at once."""
        states = self.states()
        return [
            name
            for name, serials in self.runs().items()
            if len(serials) > 1 or name not in states or states[name]["pid"] is None
        ]

    # What the daemon says.

    def tasks(self) -> float:
        return self.metrics()["tasks_running", ""]

    def metrics(self) -> dict[tuple[str, str], float]:
        """Each sample by its name and, where there is one, its server; over all other labels it is a sum."""
        said = next(line for line in self.daemon.said() if line.startswith("metrics and health at "))
        with urllib.request.urlopen(f"{said.rpartition(' ')[2]}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        samples: defaultdict[tuple[str, str], float] = defaultdict(float)
        for name, labels, value in _SAMPLE.findall(text):
            known = dict(_LABEL.findall(labels))
            key = known.get("outcome", "") if name == "tool_calls_total" else known.get("server", "")
            samples[name, key] += float(value)
        return dict(samples)


@contextmanager
def inhabited(directory: Path, number: int) -> Iterator[World]:
    """A daemon with so many servers, all of which have come up or were given up."""
    entries = servers(number)
    with listening(REMOTES) as remotes, launching(directory) as launcher:
        entries |= {remote.name: remote.entry(restart=RESTART, callTimeout=20) for remote in remotes}
        launcher.configure(entries, **SETTINGS)
        daemon = launcher.spawn()
        until(lambda: answers(daemon))
        world = World(launcher, daemon, entries, daemon.connect(), remotes)
        until(world.operator.settled, seconds=120)
        try:
            yield world
        except BaseException:
            # The log goes with the directory, and the daemon may be the one that ended.
            print(f"the daemon's exit status: {daemon.process.poll()}; its last words:", file=sys.stderr)
            print(*daemon.log.read_text(encoding="utf-8").splitlines()[-20:], sep="\n", file=sys.stderr)
            raise
