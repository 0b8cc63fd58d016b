"""`selftest`: a verdict on each promise, for people and for programs, and nothing left behind."""

import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from supervisor.cli.selftest import Progress, lines
from supervisor.selftest import program, speed, table
from supervisor.selftest.case import Case, Result, Scene
from supervisor.selftest.promises import Complaint, Promise
from supervisor.selftest.report import Report
from supervisor.selftest.steps import await_all
from tests.e2e.support import PATIENCE, until
from tests.files import whole_lines

FAILING = Case("Z1", Promise.TRUTH, "a server", "it starts", "it flies", (), (lambda _: "no",))


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary directories are made; short, as sockets' paths must be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


def verdicts(report: dict[str, Any]) -> dict[str, bool | None]:
    return {each["promise"]: each["kept"] for each in report["promises"]}


@pytest.mark.parametrize(("limit", "fast"), [(1e6, True), (0.0, False)])
def test_a_program_reads_a_verdict_on_each_promise(
    limit: float,
    fast: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    temporary: Path,
) -> None:
    # Limits that every machine keeps, and none: what a busy one takes for a call is not the subject here.
    monkeypatch.setattr(speed, "FAST_ENOUGH", limit)

    assert main(["selftest", "--json", "C16", "P5"]) == (0 if fast else 1)

    report = json.loads(capsys.readouterr().out)
    known = {Promise.ACCOUNT: None, Promise.SPEED: fast}
    assert verdicts(report) == {promise.value: known.get(promise, True) for promise in Promise}
    assert [case["id"] for case in report["cases"]] == ["C16"]
    assert report["speed"]["ratio"] > 0
    assert [str(kept) for kept in temporary.iterdir()] == ([] if fast else [report["directory"]])


def test_a_broken_promise_is_an_exit_status_and_leaves_its_logs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(table, "CASES", (FAILING,))

    assert main(["selftest", "Z1"]) == 1

    shown = capsys.readouterr().out
    [kept] = temporary.iterdir()
    assert "FAILED Z1   a server; it starts: it flies" in shown
    assert f"BROKEN  {Promise.TRUTH.value}\n        broken in Z1\n" in shown
    assert f"what the daemons logged is in {kept};" in shown
    assert list(kept.glob("*/daemon.log"))


def test_a_case_that_does_not_exist_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "C999"]) == 2

    assert "cannot find C999; the cases are C16, " in capsys.readouterr().err


def test_a_directory_that_no_socket_fits_into_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    deep = temporary / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))

    assert main(["selftest", "C1"]) == 1

    assert "set TMPDIR to a shorter one" in capsys.readouterr().err
    assert list(deep.iterdir()) == []


def test_on_a_terminal_one_line_changes(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    main_end, their_end = pty.openpty()
    words = [sys.executable, "-m", "supervisor", "selftest", "C1"]
    environment = {**os.environ, "TERM": "xterm", "TMPDIR": str(temporary), "COLUMNS": "60"}
    with subprocess.Popen(words, stdin=their_end, stdout=their_end, env=environment) as running:
        os.close(their_end)
        shown = read_all(main_end)
        assert running.wait(PATIENCE) == 0

    assert "\r\x1b[K1/1 a command does not exist; it is started\r\x1b[K" in shown
    assert f"\x1b[32mkept    \x1b[0m{Promise.TRUTH.value}" in shown


def read_all(descriptor: int) -> str:
    shown = b""
    try:
        while chunk := os.read(descriptor, 4096):
            shown += chunk
    except OSError:
        pass  # how a terminal says that everybody has left
    os.close(descriptor)
    return shown.decode()


def test_a_polite_end_leaves_nothing(temporary: Path) -> None:
    words = [sys.executable, "-m", "supervisor", "selftest", "D2"]
    with subprocess.Popen(words, env={**os.environ, "TMPDIR": str(temporary)}) as running:
        journal = until(lambda: list(temporary.glob("*/*/journal")))[0]
        pid = until(lambda: [json.loads(line)["pid"] for line in whole_lines(journal)])[0]
        running.terminate()
        assert running.wait(PATIENCE) == 128 + 15

    until(lambda: not Path(f"/proc/{pid}").exists())
    assert list(temporary.iterdir()) == []


def test_a_promise_that_nothing_was_tried_for_is_neither_kept_nor_broken() -> None:
    report = Report((), None, 0.0)

    assert {verdict.kept for verdict in report.verdicts()} == {None}
    assert report.ok


def test_a_complaint_breaks_the_promise_that_it_is_about_and_no_other() -> None:
    result = Result(FAILING, (Complaint(Promise.NOTHING_LEFT, "one is left"),), 1.0)
    report = Report((result,), speed.Speed(1.0, 6.0), 0.0)

    kept = {verdict.promise: verdict.kept for verdict in report.verdicts()}

    assert not report.ok
    assert [promise for promise in Promise if kept[promise] is False] == [Promise.NOTHING_LEFT, Promise.SPEED]


def test_only_what_a_case_can_find_broken_is_said_to_be_kept() -> None:
    alone = Case("Z3", Promise.NOTHING_LEFT, "a", "b", "c", (), (), own_daemon=True)
    beside = Case("Z4", Promise.ACCOUNT, "a", "b", "c", (), ())
    report = Report([Result(case, (), 1.0) for case in (alone, beside)], None, 0.0)

    assert {verdict.promise: (verdict.kept, verdict.evidence) for verdict in report.verdicts()} == {
        Promise.NOTHING_LEFT: (True, "held in 2 cases"),
        Promise.NO_HARM: (True, "held in 1 case"),
        Promise.TRUTH: (True, "held in 1 case"),
        Promise.ACCOUNT: (True, "held in 1 case"),
        Promise.SPEED: (None, "not tried"),
    }


def test_what_a_case_was_tried_again_for_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    late = Complaint(Promise.NO_HARM, "it came late", by_chance=True)
    result = Result(FAILING, (), 1.0, forgiven=(late,))
    report = Report((result,), None, 0.0)
    Progress(1, silent=False).end(result)

    assert "tried again, as it came late" in capsys.readouterr().out
    assert "1 tries were repeated" in "\n".join(lines(report, None))
    assert report.as_object()["cases"][0]["forgiven"][0]["sentence"] == "it came late"
    assert report.ok


def test_a_speed_that_cannot_be_measured_is_a_promise_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "measure", lambda _: 1 / 0)

    assert main(["selftest", "P5"]) == 1

    assert "it could not be measured: ZeroDivisionError: division by zero" in capsys.readouterr().out


@pytest.mark.parametrize("own_daemon", [True, False])
def test_a_step_that_raises_something_unforeseen_is_a_complaint_and_leaves_nothing(
    own_daemon: bool, temporary: Path
) -> None:
    pids: list[int] = []

    def stumble(scene: Scene) -> None:
        await_all(scene)
        pids.append(scene.lab.pid)
        raise KeyError("what was sought")

    broken = Case("Z2", Promise.TRUTH, "a", "b", "c", (stumble,), (), own_daemon=own_daemon)
    report = program.run([broken], temporary, speed=False, on_begin=print, on_end=print)

    [complaint] = report.results[0].complaints
    assert complaint.promise is Promise.TRUTH
    assert "KeyError: 'what was sought'" in complaint.sentence
    assert not Path(f"/proc/{pids[0]}").exists()
