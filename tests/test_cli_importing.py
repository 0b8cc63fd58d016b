"""`import`: what other programs have is shown, picked and added, and secrets are not shown."""

import io
import json
from pathlib import Path

import pytest

from supervisor.cli import main
from supervisor.cli.importing import PROGRAMS
from supervisor.core import imports
from tests.cli_support import lonely_home, servers

SECRET = "Bearer sesame-open"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the configuration is; no daemon reads it."""
    return lonely_home(tmp_path, monkeypatch)


@pytest.fixture
def cursor(tmp_path: Path) -> Path:
    """What Cursor has configured."""
    path = tmp_path / "home" / ".cursor" / "mcp.json"
    path.parent.mkdir()
    local = {"command": "cat", "args": ["--api-key", "sesame"]}
    remote = {"url": "https://example.com/mcp", "headers": {"Authorization": SECRET}}
    path.write_text(json.dumps({"mcpServers": {"files": local, "remote": remote, "odd": {}}}))
    return path


class Terminal(io.StringIO):
    """A person who types these lines."""

    def isatty(self) -> bool:
        return True


def test_the_programs_of_the_help_are_those_that_are_known() -> None:
    assert PROGRAMS == imports.PROGRAMS


def test_without_a_person_to_ask_an_import_only_lists(
    config: Path, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "  SERVER  STATE     WHAT IT STARTS, OR WHY NOT",
        "~/.cursor/mcp.json",
        "  files   new       cat --api-key ***",
        '  odd     unusable  needs "command" for a program to start, or "url" for a',
        "                    server to reach",
        "  remote  new       https://example.com/mcp",
        "2 can be added; --all does that",
    ]
    assert not config.exists()


def test_each_file_is_named_once_and_a_name_that_was_offered_is_said_to_be(
    tmp_path: Path, cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "home" / ("a-long-name-" * 6)
    (project / ".vscode").mkdir(parents=True)
    (project / ".vscode/mcp.json").write_text(
        '{"servers": {"files": {"command": "x"}, "b": {"command": "y"}}}'
    )
    monkeypatch.chdir(project)

    assert main(["import"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[6:-1] == [
        f"~/{project.name}/.vscode/mcp.json",
        "  b       new       y",
        "  files   exists    offered above, from ~/.cursor/mcp.json",
    ]
    assert max(len(line) for line in lines if not line.startswith("~")) <= 80


VSCODE = {
    "servers": {
        "in": {"command": "uvx", "args": ["x"], "env": {"T": "${input:tok}"}},
        "out": {"command": "node", "args": ["${workspaceFolder}/s.js"]},
    }
}


@pytest.fixture
def vscode(tmp_path: Path) -> Path:
    """What VS Code has configured for the project one is in."""
    path = tmp_path / "home" / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps(VSCODE))
    return path


def test_what_needs_a_value_is_listed_with_the_reason_and_not_added_with_the_rest(
    config: Path, vscode: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "--all"]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "in incomplete uvx x (needs a value in place of ${input:tok}, which only an editor can fill in)"
    ) in shown
    home = str(vscode.parents[1])
    assert servers(config) == {"out": {"command": "node", "args": [f"{home}/s.js"], "cwd": home}}


def test_a_person_may_add_what_needs_a_value_and_is_told_that_it_does(
    config: Path, vscode: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\nn\n"))

    assert main(["import"]) == 0

    assert servers(config)["in"]["env"] == {"T": "${input:tok}"}
    asked = capsys.readouterr().err
    assert asked.startswith("add in from ~/.vscode/mcp.json, which is: uvx x (needs a value in place of")
    assert asked.endswith(f"which is: node {vscode.parents[1]}/s.js? [y/N] ")


def test_nobody_is_asked_to_say_yes_to_a_secret(
    cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(""))

    main(["import"])

    said = capsys.readouterr()
    assert "which is: cat --api-key ***? [y/N] " in said.err
    assert "sesame" not in said.err + said.out


def test_a_dry_run_adds_nothing(config: Path, cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--all", "--dry-run"]) == 0

    assert capsys.readouterr().out.endswith(f"{config} would be changed\n")
    assert not config.exists()


def test_everything_new_is_imported_at_once(
    config: Path, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "--from", "cursor", "--all"]) == 0

    assert servers(config).keys() == {"files", "remote"}
    assert servers(config)["remote"]["headers"] == {"Authorization": SECRET}
    assert SECRET not in capsys.readouterr().out


def test_what_is_imported_is_not_imported_again(
    config: Path, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["import", "--all"])
    before = config.read_bytes()
    capsys.readouterr()

    assert main(["import", "--all"]) == 0

    assert "changed" not in (shown := capsys.readouterr().out)
    assert " exists " in shown
    assert config.read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "added"), [("y\nn\n", {"files"}), ("\n YES \n", {"remote"}), ("y\n", {"files"}), ("", None)]
)
def test_a_person_is_asked_for_each_server(
    config: Path,
    cursor: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    added: set[str] | None,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))

    assert main(["import"]) == 0

    assert capsys.readouterr().err.count("? [y/N] ") == 2
    assert (set(servers(config)) if config.exists() else None) == added


@pytest.mark.parametrize("person", [True, False])
def test_programs_are_told_of_offers_without_their_secrets(
    config: Path,
    cursor: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    person: bool,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\ny\n") if person else io.StringIO())

    assert main(["import", "--json"]) == 0

    told = json.loads(shown := capsys.readouterr().out)
    files = {"name": "files", "source": str(cursor), "state": "new", "reason": ""}
    assert {**files, "launch": "cat --api-key ***"} in told["offers"]
    assert (told["files"], told["problems"], told["added"]) == ([str(cursor)], [], [])
    assert SECRET not in shown
    assert not config.exists()


def test_a_file_is_imported_by_its_path(tmp_path: Path, config: Path) -> None:
    (tmp_path / "home" / "theirs.json").write_text('{"servers": {"x": {"command": "cat"}}}')

    assert main(["import", "--from", "./theirs.json", "--all"]) == 0
    assert servers(config)["x"]["command"] == "cat"


def test_a_source_that_is_not_there_is_exit_78(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--from", "typo"]) == 78
    assert "cannot import from typo" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_named_and_fails(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_text("{")

    assert main(["import"]) == 1

    said = capsys.readouterr()
    assert said.out == "no servers found; 1 files of other programs are here\n"
    assert said.err.startswith("problem: ")
    assert str(cursor) in said.err
