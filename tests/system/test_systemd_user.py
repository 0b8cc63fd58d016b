"""The service of a plain user, installed with one command under a real user manager."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.system.lab import Lab, missing, until
from tests.system.service import PROGRAM, UNIT, Json, fake

NOT_HERE = missing()
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.skipif(NOT_HERE is not None, reason=str(NOT_HERE)),
]

NAME, HOME, RUNTIME = "ada", "/var/lib/ada", "/run/ada"
UNITS = f"{HOME}/.config/systemd/user"
MANAGER = f"""\
[Service]
Type=notify
User={NAME}
Delegate=yes
StateDirectory=ada
RuntimeDirectory=ada
RuntimeDirectoryMode=0700
Environment=HOME={HOME} XDG_RUNTIME_DIR={RUNTIME}
Environment=SYSTEMD_UNIT_PATH={UNITS}:/run/share/units
Environment=SYSTEMD_GENERATOR_PATH=/run/share/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/share/none
ExecStart=/lib/systemd/systemd --user
KillMode=mixed
"""


@dataclass(frozen=True, slots=True)
class Person:
    """A user who is logged in."""

    lab: Lab

    def run(self, *command: str, check: bool = True) -> str:
        """What a command of hers says."""
        become = ("setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--init-groups")
        environment = ("env", f"HOME={HOME}", f"XDG_RUNTIME_DIR={RUNTIME}")
        done = self.lab.run(*become, *environment, *command, check=False)
        said = done.stdout + done.stderr
        if check and done.returncode != 0:
            status = self.lab.run(*become, *environment, "systemctl", "--user", "status", UNIT, check=False)
            raise AssertionError(f"{command}: {said}\n{status.stdout}")
        return said

    def configure(self, **servers: Json) -> None:
        (self.lab.share / "user.json").write_text(json.dumps({"mcpServers": servers}))
        place = f"{HOME}/.config/mcp-supervisor/mcp.json"
        self.run("install", "-D", "-m", "600", "/run/share/user.json", f"{place}.fresh")
        self.run("mv", f"{place}.fresh", place)

    def states(self) -> dict[str, Any]:
        told = json.loads(self.run(str(PROGRAM), "--json", "status"))
        return {server["name"]: server["state"] for server in told["servers"]}


@pytest.fixture(scope="module")
def person(lab: Lab) -> Person:
    """Her manager ends with the lab: it has no unit to end itself by."""
    lab.run("useradd", "--no-create-home", "--home-dir", HOME, NAME)
    lab.unit("ada.service", MANAGER)
    lab.ctl("start", "ada.service")
    return Person(lab)


def test_one_command_installs_starts_and_enables_the_service(person: Person) -> None:
    person.configure(one=fake(critical=True))

    told = person.run(str(PROGRAM), "install-unit", "--user")

    assert told == f"installed: {UNITS}/{UNIT}\n"
    assert person.states() == {"one": "connected"}
    assert person.run("systemctl", "--user", "is-active", UNIT) == "active\n"
    assert person.run("systemctl", "--user", "is-enabled", UNIT) == "enabled\n"
    assert '"1/1 connected"' in person.run("systemctl", "--user", "status", UNIT)


def test_reload_and_restart_and_stop_work_as_for_the_systems_service(person: Person) -> None:
    person.configure(one=fake(), two=fake())
    person.run("systemctl", "--user", "reload", UNIT)
    assert person.states() == {"one": "connected", "two": "connected"}

    person.run("systemctl", "--user", "restart", UNIT)
    until(lambda: person.states() == {"one": "connected", "two": "connected"})

    person.run("systemctl", "--user", "stop", UNIT)
    assert person.run("systemctl", "--user", "show", "--property=Result", "--value", UNIT) == "success\n"
    assert person.run("pgrep", "-u", NAME, "-f", "fake.py", check=False) == ""


def test_verify_has_nothing_to_say_of_the_users_unit(person: Person) -> None:
    assert person.run("systemd-analyze", "--user", "verify", f"{UNITS}/{UNIT}") == ""
