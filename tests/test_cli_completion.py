"""Completion: what may stand where the cursor is, and the shells that ask."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from supervisor.cli.completion import SCRIPTS
from supervisor.cli.parser import MODULES
from tests.cli_support import WAIT, Answer, ScriptedDaemon, say_nothing, scripted_daemon

SCHEMA: dict[str, Any] = {"properties": {"zone": {}, "format": {}}}
ANSWERS: dict[str, Answer] = {
    "servers/list": {
        "result": {"servers": [{"name": "files"}, {"name": "two words"}, {"name": "bad\nname"}]}
    },
    "tools/list": {"result": {"tools": [{"name": "demo_now"}, {"name": "demo_wait"}]}},
    "tools/get": {"result": {"tool": {"inputSchema": SCHEMA}}},
    "agents/list": {"result": {"agents": [{"name": "clock"}]}},
}
COMMON = ["--help", "--json", "--socket", "-h"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mcp.json").touch()
    (tmp_path / "more").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complete(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["__complete", *words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        ([""], sorted([*MODULES, *COMMON, "--version"])),
        (["st"], ["start", "status", "stop"]),
        (["--json", "wh"], ["why"]),
        (["dance", ""], []),
        (["version", ""], []),
        (["version", "-"], COMMON),
        (["top", "--"], ["--count", "--help", "--json", "--once", "--socket"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["run", "--loop", ""], ["asyncio", "uvloop"]),
        (["events", "--kind", "t"], ["transition"]),
        (["logs", "files", "-n", ""], []),
        (["run", "--config", "m"], ["mcp.json", "more/"]),
        (["run", "--config", "./m"], ["./mcp.json", "./more/"]),
        (["check", "mcp.json", "mo"], ["more/"]),
        (["check", "absent/x"], []),
        (["--socket", "mor"], ["more/"]),
        (["import", "--from", "m"], ["mcp.json", "more/"]),
        (["import", "--from", "c"], ["claude", "claude-code", "codex", "cursor"]),
    ],
)
def test_the_grammar_says_what_may_follow(
    directory: Path, capsys: pytest.CaptureFixture[str], words: list[str], candidates: list[str]
) -> None:
    assert complete(capsys, *words) == candidates


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["why", ""], ["files", "two words"]),
        (["why", "files", ""], []),
        (["restart", "files", "t"], ["two words"]),
        (["tools", "--server", "f"], ["files"]),
        (["tools", "--all", "demo_n"], ["demo_now"]),
        (["call", "demo_"], ["demo_now", "demo_wait"]),
        (["call", "demo_now", ""], ["format=", "zone="]),
        (["call", "demo_now", "zone=UTC", ""], ["format="]),
        (["call", "demo_now", "--agent", ""], ["clock"]),
        (["call", "--timeout", "3", "demo_now", "z"], ["zone="]),
        (["agents", ""], ["clock"]),
        ([], sorted([*MODULES, *COMMON, "--version"])),
    ],
)
def test_names_come_from_the_daemon(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    candidates: list[str],
) -> None:
    with scripted_daemon(tmp_path, ANSWERS) as daemon:
        monkeypatch.setenv("MCP_SUPERVISOR_SOCKET", daemon.path)
        assert complete(capsys, *words) == candidates


def test_the_daemon_that_the_words_name_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_daemon(tmp_path, ANSWERS) as daemon:
        assert complete(capsys, "--socket", daemon.path, "why", "f") == ["files"]


@pytest.mark.parametrize("answers", [{}, {"servers/list": say_nothing}])
def test_without_an_answer_there_is_silence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: dict[str, Answer],
) -> None:
    monkeypatch.setattr("supervisor.cli.candidates.AT_ONCE", 0.05)
    with scripted_daemon(tmp_path, answers) as daemon:
        assert complete(capsys, "--socket", daemon.path if answers else "/nowhere", "why", "") == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "__complete" in capsys.readouterr().out


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "invalid choice" in capsys.readouterr().err


def in_shell(shell: str, script: str, daemon: ScriptedDaemon) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "MCP_SUPERVISOR_SOCKET": daemon.path}
    done = subprocess.run(
        [program, "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=WAIT * 4
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["mcp-supervisor", "restart", "fi"], "[files]"),
        (["mcp-supervisor", "restart", "two"], r"[two\ words]"),
        (["mcp-supervisor", "rest"], "[restart]"),
        (["mcp-supervisor", "call", "demo_now", "zo"], "[zone=]nospace"),
    ],
)
def test_bash_completes_what_is_typed(tmp_path: Path, typed: list[str], completed: str) -> None:
    script = (
        'eval "$(mcp-supervisor completion bash)"; complete -p mcp-supervisor >/dev/null\n'
        "compopt() { open=nospace; }  # the real one works only while a key is pressed\n"
        f"COMP_WORDS=({' '.join(typed)}) COMP_CWORD={len(typed) - 1}\n"
        '_mcp_supervisor; printf "[%s]" "${COMPREPLY[@]}"; printf %s "$open"'
    )
    with scripted_daemon(tmp_path, ANSWERS) as daemon:
        assert in_shell("bash", script, daemon) == completed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(tmp_path: Path, shell: str) -> None:
    with scripted_daemon(tmp_path, ANSWERS) as daemon:
        in_shell(shell, f"mcp-supervisor completion {shell} | {shell} -n /dev/stdin", daemon)


def test_fish_completes_what_is_typed(tmp_path: Path) -> None:
    script = "mcp-supervisor completion fish | source; complete -C 'mcp-supervisor restart fi'"
    with scripted_daemon(tmp_path, ANSWERS) as daemon:
        assert in_shell("fish", script, daemon) == "files\n"
