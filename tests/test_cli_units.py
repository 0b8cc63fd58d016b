"""`install-unit`: shown before it is done, and never half understood."""

import json
from pathlib import Path

import pytest

from supervisor.cli import main

UNIT = "mcp-supervisor.service"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the units of this user go."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "systemd" / "user"


def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, status: int) -> Path:
    """Put a systemctl first on PATH that notes what it is told, and ends with a status."""
    program, notes = tmp_path / "bin" / "systemctl", tmp_path / "notes"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {notes}\nexit {status}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return notes


def test_a_dry_run_prints_the_units_and_writes_none(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install-unit", "--user", "--dry-run"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith(f"# {directory / UNIT}\n[Unit]\n")
    assert shown.endswith(f"# systemctl --user enable --now {UNIT}\n")
    assert not directory.exists()


def test_the_service_of_the_system_has_a_socket(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-unit", "--dry-run"]) == 0
    assert "# /etc/systemd/system/mcp-supervisor.socket\n" in capsys.readouterr().out


def test_programs_get_files_and_commands(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-unit", "--user", "--dry-run", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert list(told["files"]) == [str(directory / UNIT)]
    assert told["commands"][0] == ["systemctl", "--user", "daemon-reload"]
    assert told["dryRun"] is True


def test_the_units_are_written_and_started(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = systemctl(tmp_path, monkeypatch, status=0)

    assert main(["install-unit", "--user"]) == 0

    assert capsys.readouterr().out == f"installed: {directory / UNIT}\n"
    assert "ExecStart=" in (directory / UNIT).read_text()
    assert notes.read_text() == f"--user daemon-reload\n--user enable --now {UNIT}\n"


def test_a_systemd_that_refuses_is_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systemctl(tmp_path, monkeypatch, status=4)

    assert main(["install-unit", "--user"]) == 1
    assert "cannot finish: systemctl --user daemon-reload" in capsys.readouterr().err
