"""Which file `add`, `remove` and `import` change: one that the daemon reads, and if not, they say so."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.cli import main
from tests.cli_support import lonely_home, say_nothing, scripted_daemon, servers
from tests.e2e.support import fake, launching, until

OTHERS = '{"mcpServers": {"theirs": {"command": "cat"}}}'


@pytest.fixture(autouse=True)
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the configuration is when nobody says otherwise."""
    lonely_home(tmp_path, monkeypatch)
    monkeypatch.delenv("MCP_CONFIG_PATH")
    (tmp_path / "others.json").write_text(OTHERS)
    return tmp_path / "home/.config/mcp-supervisor/mcp.json"


@contextmanager
def reading(directory: Path, *files: Path) -> Iterator[str]:
    """A daemon that reads these files; yields its socket."""
    told = {"configFiles": [{"path": str(file), "found": file.exists()} for file in files]}
    with scripted_daemon(directory, {"supervisor/info": {"result": told}}) as daemon:
        yield daemon.path


@pytest.mark.parametrize("words", ["add n -- cat", "import --from ../others.json --all"])
def test_the_last_file_of_the_daemon_is_changed(
    tmp_path: Path, usual: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    first, last = tmp_path / "first.json", tmp_path / "new" / "last.json"
    first.write_text("{}")

    with reading(tmp_path, first, last) as socket:
        assert main(["--socket", socket, *words.split()]) == 0

    assert len(servers(last)) == 1
    assert first.read_text() == "{}"
    assert not usual.exists()
    said = capsys.readouterr()
    assert said.out.endswith(f"{last} is changed\n")
    assert said.err == ""


def test_a_server_is_removed_from_the_daemons_file(tmp_path: Path) -> None:
    file = tmp_path / "daemons.json"
    file.write_text(OTHERS)

    with reading(tmp_path, file) as socket:
        assert main(["remove", "theirs", "--socket", socket]) == 0

    assert servers(file) == {}


def test_a_file_that_cannot_be_written_is_left_for_the_one_before(tmp_path: Path) -> None:
    first = tmp_path / "first.json"

    with reading(tmp_path, first, tmp_path / "others.json" / "below a file") as socket:
        assert main(["add", "n", "--socket", socket, "--", "cat"]) == 0

    assert list(servers(first)) == ["n"]


def test_what_no_file_of_the_daemon_can_take_is_refused(
    tmp_path: Path, usual: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "others.json" / "below a file"

    with reading(tmp_path, nowhere) as socket:
        assert main(["add", "n", "--socket", socket, "--", "cat"]) == 78

    assert f"cannot write {nowhere}" in capsys.readouterr().err
    assert not usual.exists()


@pytest.mark.parametrize("by", ["option", "variable"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_that_the_daemon_does_not_read_is_said_to_be_none_of_its(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    by: str,
    dry_run: bool,
) -> None:
    mine, daemons = tmp_path / "mine.json", tmp_path / "daemons.json"
    if by == "variable":
        monkeypatch.setenv("MCP_CONFIG_PATH", str(mine))
    words = [*(["--config", str(mine)] if by == "option" else []), *(["--dry-run"] if dry_run else [])]

    with reading(tmp_path, daemons) as socket:
        assert main(["add", "n", "--socket", socket, *words, "--", "cat"]) == 0

    assert (mine.exists(), daemons.exists()) == (not dry_run, False)
    said = capsys.readouterr().err
    assert said == (
        f"mcp-supervisor: the daemon at {socket} does not read this file, so it will not see this; "
        f"it reads {daemons}\n"
    )


@pytest.mark.parametrize("name", ["daemons.json", "link.json", "mine.json"])
def test_programs_are_told_whether_the_daemon_reads_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    daemons = tmp_path / "daemons.json"
    daemons.write_text("{}")
    (tmp_path / "link.json").symlink_to(daemons)

    with reading(tmp_path, daemons) as socket:
        assert main(["--json", "add", "n", "--socket", socket, "--config", f"../{name}", "--", "cat"]) == 0

    said = capsys.readouterr()
    assert json.loads(said.out)["readByDaemon"] is (name != "mine.json")
    assert said.err == ""


def test_where_no_daemon_answers_the_usual_file_is_changed(
    tmp_path: Path, usual: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", "a", "--", "cat"]) == 0
    assert capsys.readouterr().err == ""

    nobody = str(tmp_path / "nobody.sock")
    assert main(["add", "b", "--socket", nobody, "--", "cat"]) == 0

    assert list(servers(usual)) == ["a", "b"]
    assert f"no daemon answers at {nobody}; " in capsys.readouterr().err


def test_a_daemon_that_does_not_answer_holds_nobody_up(
    tmp_path: Path, usual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.cli.editing.PATIENCE", 0.05)

    with scripted_daemon(tmp_path, {"supervisor/info": say_nothing}) as daemon:
        assert main(["add", "n", "--socket", daemon.path, "--", "cat"]) == 0

    assert list(servers(usual)) == ["n"]


def test_what_is_added_runs_and_what_is_removed_is_gone(tmp_path: Path) -> None:
    with launching(tmp_path) as launcher:
        daemon = launcher.start({"a": fake()})
        command = [fake()["command"], *fake()["args"]]

        assert launcher.command("add", "n", "--", *command).returncode == 0
        until(lambda: "n_echo" in daemon.client.tools())
        assert launcher.command("remove", "a").returncode == 0
        until(lambda: "a_echo" not in daemon.client.tools())
