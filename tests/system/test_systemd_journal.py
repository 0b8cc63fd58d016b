"""What the daemon writes to a real journal, read with journalctl."""

import json
from collections.abc import Iterator

import pytest

from tests.system.lab import Lab, missing, until
from tests.system.service import UNIT, Json, Service, fake

NOT_HERE = missing()
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.skipif(NOT_HERE is not None, reason=str(NOT_HERE)),
]

JOURNALD = "systemd-journald"
JOURNALD_SOCKET = """\
[Unit]
DefaultDependencies=no
[Socket]
ListenDatagram=/run/systemd/journal/socket
ListenStream=/run/systemd/journal/stdout
PassCredentials=yes
SocketMode=0666
"""
JOURNALD_SERVICE = """\
[Unit]
DefaultDependencies=no
Requires=systemd-journald.socket
[Service]
Type=notify
ExecStart=/lib/systemd/systemd-journald
StandardOutput=null
"""


@pytest.fixture(scope="module")
def journald(lab: Lab) -> Iterator[Lab]:
    lab.unit(f"{JOURNALD}.socket", JOURNALD_SOCKET)
    lab.unit(f"{JOURNALD}.service", JOURNALD_SERVICE)
    lab.ctl("start", f"{JOURNALD}.socket", f"{JOURNALD}.service")
    yield lab
    lab.ctl("stop", f"{JOURNALD}.socket", f"{JOURNALD}.service")


def entries(lab: Lab, *words: str) -> list[Json]:
    """What the journal holds of the service."""
    found = lab.run("journalctl", "--output=json", f"--unit={UNIT}", *words, check=False).stdout
    return [json.loads(line) for line in found.splitlines()]


def test_entries_can_be_found_by_server_and_by_priority(service: Service, journald: Lab) -> None:
    service.drop_in("StandardError=journal\n")

    service.start(good=fake(), bad=fake("--exit-at", "spawn", "--exit-code", 3))

    [entry] = until(lambda: entries(journald, "MCP_SERVER=bad", "--priority=err"))
    assert entry["MESSAGE"].startswith("supervisor.runtime.fleet: bad: unavailable: exited with code 3")
    assert entry["PRIORITY"] == "3"
    assert entry["SYSLOG_IDENTIFIER"] == "mcp-supervisor"
    assert (entry["MCP_PHASE"], entry["MCP_RUN"]) == ("unavailable", "1")
    assert entry["_TRANSPORT"] == "journal"
    assert entry["_SYSTEMD_UNIT"] == UNIT


def test_a_stream_that_is_not_the_journals_keeps_the_journal_silent(service: Service, journald: Lab) -> None:
    before = len(entries(journald, "SYSLOG_IDENTIFIER=mcp-supervisor"))

    service.start(good=fake(critical=True))

    until(lambda: "good: ready" in (journald.share / "daemon.log").read_text())
    assert len(entries(journald, "SYSLOG_IDENTIFIER=mcp-supervisor")) == before
