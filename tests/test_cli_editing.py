"""`add` and `remove`: what is typed becomes an entry, and secrets are not shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from tests.cli_support import lonely_home, servers

SECRET = "Bearer sesame-open"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the configuration is; no daemon reads it."""
    return lonely_home(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("add x -- cat", {"command": "cat"}),
        ("add x -- npx -y server --json", {"command": "npx", "args": ["-y", "server", "--json"]}),
        ("add --socket /s x -- run -- -h", {"command": "run", "args": ["--", "-h"]}),
        ("add x --url https://e.com/mcp", {"url": "https://e.com/mcp"}),
        (
            "add --url http://e.com x --header A=b=c --header D=",
            {"url": "http://e.com", "headers": {"A": "b=c", "D": ""}},
        ),
    ],
)
def test_what_is_typed_becomes_an_entry(config: Path, words: str, entry: dict[str, Any]) -> None:
    assert main(words.split()) == 0
    assert servers(config) == {"x": entry}


@pytest.mark.parametrize(
    "words",
    [
        "add x",
        "add x --",
        "add x cat",
        "add x --url http://e.com -- cat",
        "add x --header A=b -- cat",
        "add x --url http://e.com --header sesame",
        "add x --url http://e.com --header =sesame",
        "add -- cat",
    ],
)
def test_what_makes_no_entry_is_wrong_usage(
    config: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("mcp-supervisor: cannot")
    assert "sesame" not in said
    assert not config.exists()


def test_the_difference_is_shown_without_secrets(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "x", "--url", "http://e.com", "--header", f"Authorization={SECRET}"]) == 0

    shown = capsys.readouterr().out
    assert '+    "x": {' in shown
    assert shown.endswith(f"\n{config} is changed\n")
    assert SECRET not in shown
    assert SECRET in config.read_text()


@pytest.mark.parametrize("words", ["add y -- cat --api-key sesame", "remove x", "remove x --json"])
def test_no_secret_is_in_the_difference_wherever_the_file_has_it(
    config: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    config.parent.mkdir()
    config.write_text("""{
  "mcpServers": {
    // "old": {"command": "old", "env": {"K": "sesame"}},
    "listed": {"command": "cat", "env": ["K=sesame"]},
    "x": {"command": "cat", "args": ["--token", "sesame"]},
    "z": {"url": "http://e.com/?api_key=sesame"}
  }
}
""")

    assert main(words.split()) == 0

    shown = capsys.readouterr().out
    assert "sesame" not in shown
    assert shown.count("***") >= 4


@pytest.mark.parametrize("words", ["add y -- cat", "remove x"])
def test_a_file_without_a_last_line_break_is_shown_line_by_line(
    config: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    config.parent.mkdir()
    config.write_text('{"mcpServers": {"x": {"command": "cat"}}}')

    assert main(words.split()) == 0

    removed, mark, added, *rest = capsys.readouterr().out.splitlines()[3:]
    assert (removed[0], added[0]) == ("-", "+")
    assert [mark, *rest] == [*["\\ No newline at end of file"] * 2, f"{config} is changed"]


@pytest.mark.parametrize(
    ("words", "as_json"), [("add x -- cat --json", False), ("add x --json -- cat", True)]
)
def test_a_failure_is_told_as_our_own_words_ask_for_it(
    config: Path, capsys: pytest.CaptureFixture[str], words: str, as_json: bool
) -> None:
    config.parent.mkdir()
    config.write_text("[]")

    assert main(words.split()) == 78

    said = capsys.readouterr()
    assert ("cannot" in said.err, said.out.startswith('{\n  "error": {')) == (not as_json, as_json)


def test_the_last_file_that_is_named_is_changed(tmp_path: Path, config: Path) -> None:
    first, last = tmp_path / "first.json", tmp_path / "last.json"

    assert main(["add", "x", "--config", str(first), "--config", str(last), "--", "cat"]) == 0

    assert servers(last) == {"x": {"command": "cat"}}
    assert not first.exists()
    assert not config.exists()


@pytest.mark.parametrize("words", ["add y --dry-run -- cat", "remove x --dry-run"])
def test_a_dry_run_shows_the_change_and_makes_none(
    config: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    main(["add", "x", "--", "cat"])
    before = config.read_bytes()
    capsys.readouterr()

    assert main(words.split()) == 0

    assert capsys.readouterr().out.endswith(f"{config} would be changed\n")
    assert config.read_bytes() == before


def test_a_server_that_is_there_is_not_added_again(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["add", "x", "--", "cat"])

    assert main(["add", "x", "--", "dog"]) == 1
    assert "cannot" in capsys.readouterr().err
    assert servers(config) == {"x": {"command": "cat"}}


def test_a_server_is_removed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "xy":
        main(["add", name, "--", "cat"])
    capsys.readouterr()

    assert main(["remove", "x"]) == 0

    assert '-    "x": {' in capsys.readouterr().out
    assert servers(config) == {"y": {"command": "cat"}}


def test_a_server_that_is_not_there_cannot_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["remove", "x"]) == 3
    assert "cannot find server 'x'" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "key"), [("add y -- cat", "added"), ("remove x", "removed")])
def test_programs_get_what_was_changed(
    config: Path, capsys: pytest.CaptureFixture[str], words: str, key: str
) -> None:
    main(["add", "x", "--", "cat"])
    capsys.readouterr()

    assert main(["--json", *words.split()]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told.pop("difference").startswith(f"--- {config}\n")
    assert told == {key: [words.split()[1]], "path": str(config), "readByDaemon": None, "dryRun": False}
