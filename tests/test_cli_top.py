"""`top`: figures from two looks, plain for scripts, in place on a terminal that is left as it was."""

import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from supervisor.cli.load import Look, loads
from supervisor.cli.render import cells, latency, rate, size
from supervisor.cli.screen import ENTER, LEAVE
from supervisor.cli.top import lines
from tests.cli_support import WAIT, Answer, hang_up, scripted_daemon


def server(name: str = "files", **more: Any) -> dict[str, Any]:
    usual = {"state": "connected", "phase": "ready", "run": 1, "pending": 2, "rss": 52_000_000, "cpu": 1.0}
    figures = {"calls": {"ok": 5, "tool_error": 1}, "latency": {"p50": 0.0012, "p99": 0.25}}
    return {"name": name, **usual, **figures, **more}


FLEET = [server(), server("a-server-with-a-very-long-name", state="unavailable", rss=None, latency=None)]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("supervisor.cli.top.REFRESH", 0.01)


@pytest.mark.parametrize(
    ("earlier", "now", "calls", "cpu"),
    [
        (server(), server(calls={"ok": 26}, cpu=1.5), 10.0, 0.25),
        (server(), server(calls={"ok": 2}, run=2, cpu=0.1), 1.0, None),
        (server(), server(calls=None, cpu=None), None, None),
        (server("other"), server(), None, None),
    ],
)
def test_rates_are_the_growth_since_the_look_before(
    earlier: dict[str, Any], now: dict[str, Any], calls: float | None, cpu: float | None
) -> None:
    [load] = loads(Look(12.0, [now]), Look(10.0, [earlier]))

    assert (load.calls_per_second, load.cpu) == (calls, cpu)


def test_a_first_look_has_no_rates() -> None:
    [load] = loads(Look(12.0, [server()]), None)

    assert (load.calls_per_second, load.cpu, load.p50, load.rss) == (None, None, 0.0012, 52_000_000)


def test_figures_that_an_older_daemon_does_not_have_are_left_open() -> None:
    [load] = loads(Look(2.0, [{"name": "x", "state": "idle"}]), Look(1.0, [{"name": "x", "state": "idle"}]))

    assert (load.calls_per_second, load.p50, load.pending, load.rss, load.cpu) == (None,) * 5


def test_the_view_fits_eighty_columns() -> None:
    before, now = Look(0.0, FLEET), Look(1.0, [server(calls={"ok": 1206}, cpu=3.5), FLEET[1]])

    shown = lines(now, loads(now, before), clock="12:00:00", width=80, colour=False)

    assert shown == [
        "12:00:00  1/2 connected  1200 calls/s",
        "NAME                STATE        CALLS/S     P50     P99  PEND    RSS   CPU",
        "files               connected       1200  1.2 ms  250 ms     2  52 MB  250%",
        "a-server-with-a-v…  unavailable        0       -       -     2      -    0%",
    ]
    assert max(map(cells, shown)) <= 80


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (latency(0.0000004), "0 us"),
        (latency(0.00085), "850 us"),
        (latency(0.0012), "1.2 ms"),
        (latency(0.0456), "46 ms"),
        (latency(1.26), "1.3 s"),
        (latency(300), "300 s"),
        (size(512), "512 B"),
        (size(14_300_000), "14 MB"),
        (size(1_230_000_000), "1.2 GB"),
        (rate(0), "0"),
        (rate(4.23), "4.2"),
        (rate(1234), "1234"),
    ],
)
def test_figures_are_short(shown: str, text: str) -> None:
    assert shown == text


def run(tmp_path: Path, answer: Answer, *words: str) -> int:
    with scripted_daemon(tmp_path, {"servers/list": answer}) as daemon:
        return main(["top", *words, "--socket", daemon.path])


@pytest.mark.parametrize(("words", "looks"), [(["--once"], 1), (["-n", "3"], 3)])
def test_scripts_get_as_many_looks_as_they_want_without_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], looks: int
) -> None:
    assert run(tmp_path, {"result": {"servers": FLEET}}, *words) == 0

    out = capsys.readouterr().out
    assert out.count("NAME") == out.count("\n\n") + 1 == looks
    assert "\x1b" not in out
    assert out.index("a-server") < out.index("files")


def test_programs_get_one_object_per_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"result": {"servers": FLEET[:1]}}, "-n", "2", "--json") == 0

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["servers"][0]["callsPerSecond"] is None
    assert second["servers"] == [
        {
            "name": "files",
            "state": "connected",
            "callsPerSecond": 0.0,
            "p50": 0.0012,
            "p99": 0.25,
            "pending": 2,
            "rss": 52_000_000,
            "cpu": 0.0,
        }
    ]


def test_a_fleet_without_servers_is_said_to_be_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {"result": {"servers": []}}, "--once") == 0
    assert capsys.readouterr().out.splitlines()[1] == "no servers"


def test_a_daemon_that_goes_away_is_exit_69(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, hang_up) == 69
    assert "cannot learn" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-n", "0"], ["-n", "-1"], ["-n", "x"]])
def test_a_count_is_a_whole_number_above_zero(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", *words]) == 2
    assert "cannot understand" in capsys.readouterr().err


class Session:
    """`top` on a terminal of its own."""

    def __init__(self, path: str, terminal: int, end: int) -> None:
        self.shown = b""
        self._terminal, self.end = terminal, end
        environ = {**os.environ, "TERM": "xterm", "LINES": "3"}
        environ.pop("NO_COLOR", None)
        words = [sys.executable, "-m", "supervisor", "top", "--socket", path]
        self.process = subprocess.Popen(words, stdin=end, stdout=end, stderr=end, env=environ)

    def read_until(self, wanted: str) -> None:
        while wanted.encode() not in self.shown:
            assert select.select([self._terminal], [], [], WAIT * 4)[0], self.shown
            self.shown += os.read(self._terminal, 10_000)

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)


@contextmanager
def on_a_terminal(tmp_path: Path) -> Iterator[Session]:
    terminal, end = os.openpty()
    with scripted_daemon(tmp_path, {"servers/list": {"result": {"servers": FLEET}}}) as daemon:
        session = Session(daemon.path, terminal, end)
        try:
            yield session
        finally:
            session.process.kill()
            session.process.wait(WAIT)
            os.close(terminal)
            os.close(end)


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_however_it_is_left_the_terminal_is_as_before(tmp_path: Path, number: signal.Signals | None) -> None:
    with on_a_terminal(tmp_path) as session:
        before = termios.tcgetattr(session.end)
        session.read_until("unavailable")
        assert termios.tcgetattr(session.end) != before
        if number is None:
            session.type(b"xq")
        else:
            session.process.send_signal(number)
        session.read_until(LEAVE)
        status = session.process.wait(WAIT * 4)

        assert termios.tcgetattr(session.end) == before
    assert session.shown.startswith(ENTER.encode())
    assert status == (128 + number if number in (signal.SIGTERM, signal.SIGHUP) else 0)


def test_a_small_terminal_shows_the_broken_and_is_not_scrolled(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as session:
        session.read_until("unavailable")
        session.type(b"q")
        session.read_until(LEAVE)

    assert b"\x1b[31munavailable" in session.shown
    assert b"files" not in session.shown
