"""The shipped service in a lab: configured, started, asked and looked at."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.system.lab import Lab

UNIT, SOCKET = "mcp-supervisor.service", "mcp-supervisor.socket"
PROGRAM = Path(sys.executable).with_name("mcp-supervisor")
FAKE = Path(__file__).parents[1] / "fake_servers" / "fake.py"
CONFIG = "/etc/mcp-supervisor/mcp.json"
CONTROL = "/run/mcp-supervisor/control.sock"
DROP_IN = """\
[Service]
StandardError=append:/run/share/daemon.log
WatchdogSec=3
"""
Json = dict[str, Any]


def fake(*options: object, **keys: Any) -> Json:
    return {"command": sys.executable, "args": ["-I", "-S", str(FAKE), *map(str, options)], **keys}


class Service:
    """The daemon as a service of the lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def configure(self, **servers: Json) -> None:
        self.write(json.dumps({"mcpServers": servers}))

    def write(self, text: str) -> None:
        (self.lab.share / "mcp.json").write_text(text)
        # As editors do: a daemon that looks sees the old file or the new one.
        self.lab.run("install", "-D", "-m", "644", "/run/share/mcp.json", f"{CONFIG}.fresh")
        self.lab.run("mv", f"{CONFIG}.fresh", CONFIG)

    def drop_in(self, text: str) -> None:
        self.lab.unit(f"{UNIT}.d/test.conf", DROP_IN + text)

    def start(self, **servers: Json) -> None:
        self.configure(**servers)
        self.lab.ctl("start", UNIT)

    def command(self, *words: str) -> Any:
        """What the command line answers, as root."""
        return json.loads(self.lab.run(str(PROGRAM), "--socket", CONTROL, "--json", *words).stdout)

    def states(self) -> dict[str, str]:
        return {server["name"]: server["state"] for server in self.command("status")["servers"]}

    def connected(self, *names: str) -> bool:
        """Whether they are; fails at once, with the reason, when one of them cannot be any more."""
        found = {server["name"]: server for server in self.command("status")["servers"]}
        lost = [found[name]["reason"] for name in names if found[name]["state"] == "unavailable"]
        assert not lost, f"{lost}\n{self.lab.log()}"
        return all(found[name]["state"] == "connected" for name in names)

    @property
    def main_pid(self) -> int:
        return int(self.lab.show(UNIT, "MainPID"))

    @property
    def state(self) -> str:
        return self.lab.show(UNIT, "ActiveState")
