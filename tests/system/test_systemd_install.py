"""The service of a whole machine, installed with one command under a real systemd."""

import pytest

from tests.system.lab import Lab, missing
from tests.system.service import PROGRAM, SOCKET, UNIT

NOT_HERE = missing()
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.skipif(NOT_HERE is not None, reason=str(NOT_HERE)),
]


def test_one_command_installs_starts_and_enables_the_service(lab: Lab) -> None:
    done = lab.run(str(PROGRAM), "install-unit")

    assert f"/etc/systemd/system/{UNIT}" in done.stdout + done.stderr
    assert lab.ctl("is-enabled", SOCKET).stdout == "enabled\n"
    assert lab.ctl("is-active", SOCKET).stdout == "active\n"
    assert lab.run(str(PROGRAM), "status").stdout.startswith("no servers; add one to ")
    assert lab.ctl("is-active", UNIT).stdout == "active\n"
