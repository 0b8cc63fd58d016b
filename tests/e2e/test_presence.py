"""A real daemon as systemd and health checks see it, without either."""

import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.errors import BAD_CONFIG
from tests.e2e.support import PATIENCE, PROGRAM, Daemon, Json, Launcher, answers, fake, until

PAGES: Json = {"http": {"port": 0}}
"""Settings of a daemon that chooses the port of its pages."""


def page(port: int, path: str) -> tuple[int, str]:
    """The status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


class Notified:
    """A stand-in for systemd's end of the notify socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(PATIENCE)

    def until(self, wanted: str) -> list[str]:
        """Everything up to the first message that starts so."""
        heard: list[str] = []
        while not heard or not heard[-1].startswith(wanted):
            heard.append(self._socket.recv(4096).decode())
        return heard

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def notified(launcher: Launcher, tmp_path: Path) -> Iterator[Notified]:
    path = tmp_path / "notify"
    launcher.environment |= {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "600000"}
    notified = Notified(path)
    yield notified
    notified.close()


def test_readiness_names_the_critical_server_that_is_missing(launcher: Launcher) -> None:
    daemon = launcher.start(
        {
            "good": fake(critical=True),
            "gone": {"command": "/does/not/exist", "critical": True},
            "other": {"command": "/does/not/exist"},
        },
        **PAGES,
    )

    status, text = page(daemon.port, "/readyz")

    reason = "gone: unavailable (cannot find /does/not/exist: no such file)"
    assert (status, text) == (503, f"not ready\n{reason}\n")
    assert page(daemon.port, "/healthz") == (200, "ok\n")


def test_a_daemon_whose_critical_servers_are_connected_is_ready(launcher: Launcher) -> None:
    daemon = launcher.start({"good": fake(critical=True), "bad": {"command": "/does/not/exist"}}, **PAGES)

    assert page(daemon.port, "/readyz") == (200, "ready\n")


def test_a_daemon_whose_socket_takes_nobody_is_not_ready(launcher: Launcher) -> None:
    daemon = launcher.start({}, **PAGES, limits={"clients": 1})

    status, text = page(daemon.port, "/readyz")

    assert status == 503
    assert text == f"not ready\ncontrol socket: {daemon.socket} does not answer\n"


def test_a_taken_port_ends_the_start_with_a_sentence_and_starts_no_server(launcher: Launcher) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        launcher.configure({"good": fake("--log", launcher.directory / "started")}, http={"port": port})
        daemon = launcher.spawn()

        assert daemon.wait() == BAD_CONFIG

    assert not (launcher.directory / "started").exists()
    [message] = daemon.said("error")
    assert message.startswith(f"cannot serve metrics and health at 127.0.0.1:{port}: the port is taken; set")


def test_the_metrics_of_a_removed_server_vanish(launcher: Launcher) -> None:
    daemon = launcher.start({"kept": fake(), "gone": fake()}, **PAGES)
    daemon.client.text("gone_echo")
    assert 'server="gone"' in page(daemon.port, "/metrics")[1]

    launcher.reload(daemon, {"kept": fake()}, **PAGES)

    shown = page(daemon.port, "/metrics")[1]
    assert 'server="gone"' not in shown
    # One, or two: the daemon may have seen for itself that the file is another.
    assert re.search(r'mcp_supervisor_config_reloads_total{result="ok"} [12]\b', shown)


def test_systemd_hears_of_the_whole_life(launcher: Launcher, notified: Notified) -> None:
    daemon = launcher.start({"slow": fake("--slow-start", 0.3, critical=True)})

    start = notified.until("READY=1")
    assert "EXTEND_TIMEOUT_USEC=10000000" in start
    assert "STATUS=1/1 connected" in start  # whoever waits for that reads it then
    notified.until("WATCHDOG=1")

    daemon.client.result("supervisor/reload")
    notified.until("RELOADING=1\nMONOTONIC_USEC=")
    notified.until("READY=1")

    daemon.end()
    assert notified.until("STOPPING=1")[-1] == "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000"


def test_children_hear_nothing_of_systemd(launcher: Launcher, notified: Notified) -> None:
    daemon = launcher.start({"one": fake(inheritEnv=["NOTIFY_SOCKET", "WATCHDOG_USEC"])})

    environment = daemon.client.text("one_environ")

    assert "NOTIFY_SOCKET" not in environment
    assert "WATCHDOG_USEC" not in environment


ACTIVATED = 'exec 3<&"$0"; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'


def test_a_socket_from_systemd_is_served_and_left_in_place(launcher: Launcher) -> None:
    launcher.configure({"one": fake()})
    with socket.socket(socket.AF_UNIX) as listener, (launcher.directory / "log").open("wb") as log:
        listener.bind(str(launcher.socket))
        listener.listen()
        command = [str(PROGRAM), "run", "--config", str(launcher.config), "--log-format", "json"]
        process = subprocess.Popen(
            ["bash", "-c", ACTIVATED, str(listener.fileno()), *command],
            pass_fds=[listener.fileno()],
            env=launcher.environment,
            stderr=log,
        )
    daemon = Daemon(process, launcher.socket, launcher.directory / "log")
    launcher.started.append(daemon)

    until(lambda: answers(daemon))
    until(daemon.client.settled)
    daemon.end()

    assert launcher.socket.exists()
