"""What systemd is told, what it hands to us, and that nothing happens without it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from trio.testing import MockClock

from supervisor.runtime.systemd import (
    Given,
    Notifier,
    control_listener,
    feed_watchdog,
    lengthen_reloads,
    patiently,
    take,
)

pytestmark = pytest.mark.anyio


class Systemd:
    """The other end of the notify socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        """Everything since the last look."""
        messages: list[str] = []
        try:
            while True:
                messages.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return messages

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Systemd]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@mcp-supervisor-test-{os.getpid()}"
    systemd = Systemd(address)
    yield systemd
    systemd.close()


def test_systemd_hears_what_happens_in_order(systemd: Systemd) -> None:
    notifier = Notifier(systemd.address)

    notifier.extend()
    notifier.ready()
    notifier.status("1/1 connected")
    notifier.alive()
    notifier.stopping(within=15)

    assert systemd.heard() == [
        "EXTEND_TIMEOUT_USEC=10000000",
        "READY=1",
        "STATUS=1/1 connected",
        "WATCHDOG=1",
        "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000",
    ]


def test_the_same_status_is_told_once(systemd: Systemd) -> None:
    notifier = Notifier(systemd.address)
    for line in ("a", "a", "b", "a"):
        notifier.status(line)

    assert systemd.heard() == ["STATUS=a", "STATUS=b", "STATUS=a"]


def test_reloads_that_overlap_are_told_as_one(systemd: Systemd) -> None:
    notifier, before = Notifier(systemd.address), time.monotonic_ns() // 1000
    notifier.ready()

    with notifier.reloading(), notifier.reloading():
        pass

    _, reloading, more_time, ready = systemd.heard()
    first, moment = reloading.split("\nMONOTONIC_USEC=")
    assert (first, more_time, ready) == ("RELOADING=1", "EXTEND_TIMEOUT_USEC=10000000", "READY=1")
    assert before <= int(moment) <= time.monotonic_ns() // 1000


@pytest.mark.parametrize("stopped", [False, True])
def test_a_reload_says_nothing_of_readiness_while_we_are_not_ready(systemd: Systemd, stopped: bool) -> None:
    notifier = Notifier(systemd.address)
    if stopped:
        notifier.ready()
        notifier.stopping(within=1)
    systemd.heard()

    with notifier.reloading():
        pass

    assert systemd.heard() == []


def test_a_reload_that_ends_after_the_stop_began_does_not_take_it_back(systemd: Systemd) -> None:
    notifier = Notifier(systemd.address)
    notifier.ready()

    with notifier.reloading():
        notifier.stopping(within=1)

    assert systemd.heard()[-1].startswith("STOPPING=1")


def test_without_systemd_nothing_is_sent() -> None:
    notifier = Notifier(None)

    notifier.ready()
    notifier.alive()


def test_a_systemd_that_is_gone_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier(str(tmp_path / "nobody")).ready()

    assert "cannot tell systemd READY=1" in caplog.text


@pytest.mark.parametrize(
    ("environ", "given"),
    [
        ({}, Given()),
        ({"NOTIFY_SOCKET": "/run/n"}, Given("/run/n")),
        ({"NOTIFY_SOCKET": ""}, Given()),
        ({"WATCHDOG_USEC": "3000000"}, Given(watchdog=3.0)),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}, Given(watchdog=3.0)),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, Given()),
        ({"WATCHDOG_USEC": "soon"}, Given()),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "8"}, Given()),
        ({"LISTEN_FDS": "many", "LISTEN_PID": "7"}, Given()),
    ],
)
def test_what_is_meant_for_us_is_taken_out_of_the_environment(environ: dict[str, str], given: Given) -> None:
    environ["OTHER"] = "stays"

    assert take(environ, pid=7) == given
    assert environ == {"OTHER": "stays"}


INHERITING = """
import os, socket
from supervisor.runtime.systemd import control_listener, take
given = take(os.environ, pid=os.getpid())
listener = control_listener(given.sockets)
print(listener.getsockname(), listener.fileno(), os.get_inheritable(3), "LISTEN_FDS" in os.environ)
"""


def test_a_socket_that_systemd_opened_is_inherited(tmp_path: Path) -> None:
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        command = f'exec 3<&{listener.fileno()}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" -c "$1"'
        done = subprocess.run(
            ["bash", "-c", command, sys.executable, INHERITING],
            pass_fds=[listener.fileno()],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )

    assert done.stdout.split() == [path, "3", "False", "False"]


def test_a_socket_of_another_kind_is_closed_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "control.sock"))

        assert control_listener((tcp, unix)) is unix
        assert tcp.fileno() == -1

    assert "of no use here" in caplog.text


def test_a_socket_without_a_file_is_not_served_as_nothing_would_guard_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0mcp-supervisor-open-{os.getpid()}")

        assert control_listener((abstract,)) is None

    assert "of no use here" in caplog.text


async def test_the_watchdog_is_fed_again_and_again_while_there_is_progress(systemd: Systemd) -> None:
    proofs = 0

    async def prove() -> None:
        nonlocal proofs
        proofs += 1
        if proofs == 4:
            tasks.cancel_scope.cancel()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed_watchdog, Notifier(systemd.address), 0.03, prove)

    assert systemd.heard() == ["WATCHDOG=1"] * 4


async def test_the_watchdog_starves_while_an_actor_is_stuck(
    systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    proofs = 0

    async def prove() -> None:
        nonlocal proofs
        proofs += 1
        if proofs == 3:
            tasks.cancel_scope.cancel()
        await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed_watchdog, Notifier(systemd.address), 0.01, prove)

    assert systemd.heard() == []
    assert "no progress was seen for 0.01 s" in caplog.text


async def test_more_time_is_asked_for_until_the_wait_is_over(systemd: Systemd) -> None:
    with anyio.fail_after(5):
        await patiently(Notifier(systemd.address), anyio.lowlevel.checkpoint)

    assert systemd.heard() == ["EXTEND_TIMEOUT_USEC=10000000"]


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_more_time_is_asked_for_as_long_as_a_reload_lasts_and_no_longer(systemd: Systemd) -> None:
    notifier = Notifier(systemd.address)
    notifier.ready()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lengthen_reloads, notifier)
        with notifier.reloading():
            await anyio.sleep(12)
        await anyio.sleep(12)
        tasks.cancel_scope.cancel()

    assert systemd.heard().count("EXTEND_TIMEOUT_USEC=10000000") == 1 + 2
