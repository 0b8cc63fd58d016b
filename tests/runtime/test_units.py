"""Installing the units: what would be written, where, and what happens when it cannot be."""

import stat
from pathlib import Path

import pytest

from supervisor.runtime.units import CannotInstall, Installation, install, plan

PROGRAM = Path("/opt/mcp/bin/mcp-supervisor")
SYSTEMD = Path(__file__).parents[2] / "systemd"


def test_the_system_service_comes_with_its_socket() -> None:
    installation = plan(user=False, environ={}, program=PROGRAM)

    assert [str(path) for path in installation.files] == [
        "/etc/systemd/system/mcp-supervisor.socket",
        "/etc/systemd/system/mcp-supervisor.service",
    ]
    assert installation.commands[-1] == (
        *("systemctl", "enable", "--now"),
        *("mcp-supervisor.socket", "mcp-supervisor.service"),
    )


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.config/systemd/user"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/cfg"}, "/cfg/systemd/user"),
    ],
)
def test_a_user_service_goes_to_the_users_directory(environ: dict[str, str], directory: str) -> None:
    installation = plan(user=True, environ=environ, program=PROGRAM)

    assert [str(path) for path in installation.files] == [f"{directory}/mcp-supervisor.service"]
    assert all("--user" in command for command in installation.commands)


@pytest.mark.parametrize("user", [True, False])
def test_the_units_name_this_program_and_no_other(user: bool) -> None:
    texts = plan(user=user, environ={"HOME": "/"}, program=PROGRAM).files.values()

    assert any(f"ExecStart={PROGRAM} run\n" in text for text in texts)
    assert not any("/usr/bin/mcp-supervisor" in text for text in texts)


def test_a_program_in_a_home_stays_visible_to_its_service() -> None:
    [_, service] = plan(user=False, environ={}, program=Path("/home/ada/bin/mcp-supervisor")).files.values()

    assert "ProtectHome=read-only" in service
    assert "ProtectHome=yes" not in service


def test_the_program_beside_the_interpreter_is_the_usual_one() -> None:
    assert "/bin/mcp-supervisor run" in str(plan(user=False, environ={}))


def test_a_path_that_a_unit_would_misread_is_refused() -> None:
    with pytest.raises(CannotInstall, match="install the program at a plainer path"):
        plan(user=False, environ={}, program=Path("/opt/my tools/%n/mcp-supervisor"))


def test_a_dry_run_shows_each_file_and_each_command() -> None:
    shown = str(plan(user=False, environ={}, program=PROGRAM))

    assert shown.startswith("# /etc/systemd/system/mcp-supervisor.socket\n[Unit]\n")
    assert shown.endswith("# systemctl enable --now mcp-supervisor.socket mcp-supervisor.service")


def test_units_are_written_before_systemd_is_told(tmp_path: Path) -> None:
    unit, told = tmp_path / "units/x.service", tmp_path / "told"

    install(Installation({unit: "[Unit]\n"}, [("cp", str(unit), str(told))]))

    assert told.read_text() == "[Unit]\n"
    assert stat.S_IMODE(unit.stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("sh", "-c", "echo no bus >&2; exit 1"), "says no bus; the units are written"),
        (("sh", "-c", "exit 4"), "says exit status 4"),
        (("/does/not/exist",), "cannot run /does/not/exist"),
    ],
)
def test_a_systemd_that_refuses_is_quoted(command: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CannotInstall, match=sentence):
        install(Installation({}, [command]))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CannotInstall, match=r"cannot write .*file/x.service: .*; use sudo, or --user"):
        install(Installation({tmp_path / "file/x.service": ""}, []))


def test_a_program_that_is_nowhere_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CannotInstall, match="install the package first"):
        plan(user=False, environ={})
