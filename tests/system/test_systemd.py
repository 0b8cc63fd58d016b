"""The shipped units under a real systemd, in a sealed lab; each test has a daemon of its own."""

import subprocess
import time
from pathlib import Path

import pytest

from supervisor.errors import UNREACHABLE
from tests.system.lab import Lab, missing, until
from tests.system.service import CONTROL, PROGRAM, SOCKET, UNIT, Service, fake

BLOCKING = """\
import signal, time
signal.signal(signal.SIGUSR2, lambda *_: time.sleep(3600))
"""
"""Read by the daemon's interpreter: on the signal, the loop does not turn any more."""

NOT_HERE = missing()
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.skipif(NOT_HERE is not None, reason=str(NOT_HERE)),
]


def test_start_blocks_until_the_critical_server_is_connected(service: Service) -> None:
    service.start(slow=fake("--slow-start", 1, critical=True))

    assert service.state == "active"
    assert service.states() == {"slow": "connected"}


def test_start_goes_on_when_a_critical_server_has_failed_for_good(service: Service) -> None:
    service.start(gone={"command": "/does/not/exist", "critical": True})

    assert service.state == "active"


def test_the_status_line_counts_and_names_the_broken(service: Service) -> None:
    service.start(good=fake(), bad=fake("--exit-at", "spawn", "--exit-code", 3))

    until(lambda: service.lab.show(UNIT, "StatusText") == "1/2 connected; bad: exited with code 3")
    assert '"1/2 connected; bad: exited with code 3"' in service.lab.ctl("status", UNIT).stdout


def test_reload_returns_when_the_new_server_is_connected(service: Service) -> None:
    service.start(old=fake(critical=True))

    service.configure(old=fake(critical=True), new=fake("--slow-start", 0.5))
    service.lab.ctl("reload", UNIT)

    assert service.states() == {"old": "connected", "new": "connected"}
    assert service.state == "active"


def test_a_reload_may_take_longer_than_the_units_own_limit(service: Service) -> None:
    service.drop_in("TimeoutStartSec=6\n")
    service.start(old=fake(critical=True))

    service.configure(old=fake(critical=True), new=fake("--slow-start", 8))
    service.lab.ctl("reload", UNIT)

    assert service.states() == {"old": "connected", "new": "connected"}


def test_reload_fails_on_a_bad_file_and_changes_nothing(service: Service) -> None:
    service.start(old=fake())
    until(lambda: service.connected("old"))

    service.write("{")
    done = service.lab.ctl("reload", UNIT, check=False)

    assert done.returncode != 0
    assert service.states() == {"old": "connected"}
    assert service.state == "active"


def test_the_watchdog_restarts_a_daemon_whose_loop_is_blocked(service: Service) -> None:
    blocking = service.lab.share / "blocking"
    blocking.mkdir(exist_ok=True)
    (blocking / "sitecustomize.py").write_text(BLOCKING)
    # So that no other end than the watchdog's brings it back.
    service.drop_in("Environment=PYTHONPATH=/run/share/blocking\nRestart=on-watchdog\n")
    service.start(one=fake())
    before = service.main_pid

    service.lab.kill("USR2", before)

    until(lambda: service.main_pid not in (0, before) and service.state == "active")
    assert service.lab.show(UNIT, "NRestarts") == "1"


def test_stop_ends_children_that_ignore_sigterm_and_gives_them_their_time_together(service: Service) -> None:
    stubborn = ("--ignore-sigterm", "--ignore-eof", "--grandchild", "setsid", "--grandchild-ignores-term")
    service.start(**{f"s{number}": fake(*stubborn, critical=True) for number in range(5)})
    assert len(service.lab.processes(UNIT)) > 10

    began = time.monotonic()
    service.lab.ctl("stop", UNIT)

    assert time.monotonic() - began < 5 * 5  # so long it would take for one after the other
    assert service.lab.processes(UNIT) == []
    assert service.lab.show(UNIT, "Result") == "success"


def test_a_stop_may_take_as_long_as_the_most_patient_server_even_beyond_the_units_own_limit(
    service: Service,
) -> None:
    service.drop_in("TimeoutStopSec=2\n")
    service.start(slow=fake("--ignore-sigterm", "--ignore-eof", critical=True, stopGrace=4))

    service.lab.ctl("stop", UNIT)

    assert service.lab.show(UNIT, "Result") == "success"
    assert "stopped, nothing left" in (service.lab.share / "daemon.log").read_text()
    assert service.lab.processes(UNIT) == []


def test_a_start_may_take_as_long_as_a_critical_server_even_beyond_the_units_own_limit(
    service: Service,
) -> None:
    service.drop_in("TimeoutStartSec=6\n")

    service.start(slow=fake("--slow-start", 8, critical=True))

    assert service.state == "active"
    assert service.states() == {"slow": "connected"}


def test_a_killed_daemon_leaves_nothing_and_is_started_again(service: Service) -> None:
    service.start(one=fake("--grandchild", "setsid", critical=True))
    before = service.lab.processes(UNIT)

    service.lab.kill("KILL", service.main_pid)

    until(lambda: service.main_pid not in (0, *before) and service.state == "active")
    assert not set(before) & set(service.lab.processes(UNIT))


def test_a_client_that_comes_before_the_daemon_gets_its_answer(service: Service) -> None:
    service.configure(one=fake())
    service.lab.ctl("start", SOCKET)
    assert service.state == "inactive"

    states = service.states()

    assert "one" in states
    until(lambda: service.state == "active")


@pytest.mark.parametrize(
    ("settings", "served"),
    [("", False), ("SocketGroup=nogroup\n", True), ("SocketGroup=nogroup\nSocketMode=0600\n", False)],
)
def test_the_sockets_group_and_mode_say_who_may_connect(
    service: Service, settings: str, served: bool
) -> None:
    service.configure()
    service.lab.unit(f"{SOCKET}.d/test.conf", f"[Socket]\n{settings}")
    service.lab.ctl("start", SOCKET)

    stranger = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    done = service.lab.run(*stranger, str(PROGRAM), "--socket", CONTROL, "status", check=False)

    assert done.returncode == (0 if served else UNREACHABLE), done.stderr


def test_a_credential_reaches_the_server_that_names_it_and_no_other(service: Service) -> None:
    (service.lab.share / "token").write_text("the-credential")
    service.drop_in("LoadCredential=token:/run/share/token\n")

    service.start(trusted=fake(env={"TOKEN": "${cred:token}"}, critical=True), other=fake(critical=True))

    told = {name: service.command("call", f"{name}_environ") for name in ("trusted", "other")}
    assert "the-credential" in str(told["trusted"])
    assert "the-credential" not in str(told["other"])
    assert "CREDENTIALS_DIRECTORY" not in str(told)


def test_the_daemon_and_its_children_run_as_a_dynamic_user(service: Service) -> None:
    service.start(one=fake(critical=True))

    processes = map(str, service.lab.processes(UNIT))
    owners = service.lab.run("stat", "--format", "%u", *(f"/proc/{pid}" for pid in processes)).stdout.split()

    assert len(owners) == 2
    assert all(61184 <= int(owner) <= 65519 for owner in owners)


def test_verify_has_nothing_to_say(lab: Lab) -> None:
    done = lab.run("systemd-analyze", "verify", *(f"/run/share/units/{name}" for name in (UNIT, SOCKET)))

    assert done.stdout + done.stderr == ""


def test_the_exposure_of_the_service_is_at_most_two_and_a_half() -> None:
    unit = Path(__file__).parents[2] / "systemd" / UNIT

    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", unit],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stdout
