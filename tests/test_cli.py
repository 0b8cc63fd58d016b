"""The command line against a scripted daemon: what it prints, what it asks, how it exits."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from supervisor import __version__
from supervisor.cli import main
from supervisor.cli.parser import MODULES, parse
from supervisor.cli.render import cells
from supervisor.cli.service import for_daemon
from supervisor.cli.status import fleet_lines
from supervisor.daemon import Options
from tests.cli_support import Answer, Connection, Message, hang_up, scripted_daemon


def server(name: str, state: str, **more: Any) -> dict[str, Any]:
    usual = {"phase": "Ready", "reason": "", "since": 0.0, "pid": 7, "tools": 3, "pending": 0}
    return {"name": name, "state": state, **usual, **more}


FLEET: dict[str, Any] = {
    "servers": [
        server("alpha", "connected", reason="opened"),
        server("beta", "disabled", pid=None, since=None, reason="enabled is false"),
        server("crashed", "unavailable", pid=None, tools=0, reason="signal 9\nafter\x1b[31m " + "long " * 30),
        server("delayed", "connecting", phase="Backoff", reason="next try in 2 s"),
    ]
}
DAEMON = {"configFiles": [{"path": "/etc/mcp.json", "found": True}], "problems": ["mcp.json: $.x: cannot"]}


def answer_and_hang_up(connection: Connection, message: Message) -> None:
    connection.send({"id": message["id"], "result": {}})
    connection.close()


def run(tmp_path: Path, answers: Mapping[str, Answer], *words: str) -> int:
    with scripted_daemon(tmp_path, answers) as daemon:
        return main([*words, "--socket", daemon.path])


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("MCP_SUPERVISOR_SOCKET", raising=False)


def test_status_shows_the_broken_first_and_fits_eighty_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(
        tmp_path, {"servers/list": {"result": FLEET}, "supervisor/info": {"result": DAEMON}}, "status"
    )

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines[:5]] == ["NAME", "crashed", "delayed", "alpha", "beta"]
    assert lines[5:] == ["1/3 connected, 1 disabled", "problem: mcp.json: $.x: cannot"]
    assert r"signal 9\nafter\x1b[31m" in lines[1]
    assert lines[1].endswith("…")
    assert max(map(cells, lines)) <= 80


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        ({"state": "connected"}, ""),
        ({"state": "connected", "overridden": True}, "enabled by an operator"),
        ({"state": "connected", "behind": "x failed"}, "not as its entry says now: x failed"),
        ({"state": "connected", "draining": 1}, "1 call on the old run"),
        ({"state": "connected", "behind": None, "draining": 2}, "2 calls on the old run"),
        ({"state": "idle", "reason": "waits", "remembered": True}, "waits; tools remembered"),
        ({"state": "idle", "reason": "waits", "behind": "x"}, "not as its entry says now: x; waits"),
    ],
    ids=str,
)
def test_the_note_says_what_the_other_columns_do_not(facts: dict[str, Any], note: str) -> None:
    lines = fleet_lines([{"name": "s", **facts}], {}, now=0.0, width=200, colour=False)

    assert lines[1].endswith(f"-  {note}" if note else "-")


def test_status_without_servers_says_where_to_add_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Answer] = {
        "servers/list": {"result": {"servers": []}},
        "supervisor/info": {"result": {**DAEMON, "problems": []}},
    }

    assert run(tmp_path, answers, "status") == 0
    assert capsys.readouterr().out == "no servers; add one to /etc/mcp.json\n"


@pytest.mark.parametrize(("state", "status"), [("connected", 0), ("unavailable", 3), ("idle", 3)])
def test_status_of_one_server_tells_by_its_exit_whether_it_is_connected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str, status: int
) -> None:
    last_exit = {"code": 1, "at": 0.0, "reason": "exit code 1"}
    one = server(
        "files",
        state,
        shadows=["/a", "/b"],
        exit=last_exit,
        nextTry=4e9,
        restarts=0,
        odd={"x": 1},
        timeline=[["spawned", 5.0], ["heard", 5.25]],
        calls={"ok": 3, "tool_error": 1},
        latency={"p50": 0.001, "p99": 0.2},
        rss=12_000_000,
        cpu=1.5,
    )

    assert run(tmp_path, {"servers/get": {"result": one}}, "status", "files") == status
    shown = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert shown["state"].strip() == state
    assert shown["shadows"].strip() == "/a, /b"
    assert shown["exit"].strip().startswith("exit code 1 (")
    assert shown["timeline"].strip() == "spawned +0.00 s, heard +0.25 s"
    assert shown["odd"].strip() == "x 1"
    assert shown["calls"].strip() == "3 ok, 1 tool_error"
    assert shown["latency"].strip() == "p50 1.0 ms, p99 200 ms"
    assert (shown["rss"].strip(), shown["cpu"].strip()) == ("12 MB", "1.50 s")
    assert shown["restarts"].strip() == "0"
    assert "ago)" in shown["since"]
    assert "(in " in shown["nextTry"]
    assert "reason" not in shown


def test_an_unknown_server_is_exit_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = {"error": {"code": -32001, "message": "cannot find server 'x'"}}

    assert run(tmp_path, {"servers/get": error}, "status", "x") == 3
    assert capsys.readouterr().err == "mcp-supervisor: cannot find server 'x'\n"


@pytest.mark.parametrize(
    ("words", "method", "result"),
    [
        (["status", "alpha"], "servers/get", FLEET["servers"][0]),
        (["tools"], "tools/list", {"tools": [], "generation": 1, "complete": True, "pending": []}),
        (["call", "x"], "tools/call", {"content": [], "_meta": {"big": 10**30}}),
    ],
)
def test_json_prints_the_answer_as_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], method: str, result: dict[str, Any]
) -> None:
    assert run(tmp_path, {method: {"result": result}}, "--json", *words) == 0
    assert json.loads(capsys.readouterr().out) == result


def test_status_tells_programs_what_is_wrong_with_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Answer] = {"servers/list": {"result": FLEET}, "supervisor/info": {"result": DAEMON}}

    assert run(tmp_path, answers, "status", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {**FLEET, "problems": DAEMON["problems"]}


def test_json_may_stand_after_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == __version__


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"mcp-supervisor {__version__} (Python ")


def test_shutdown_waits_until_the_daemon_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"supervisor/shutdown": answer_and_hang_up}, "shutdown") == 0
    assert capsys.readouterr().out == "the daemon has stopped\n"


def test_shutdown_tells_programs_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"supervisor/shutdown": answer_and_hang_up}, "shutdown", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {}


def test_a_daemon_that_does_not_end_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.cli.service.LONGEST_STOP", 0.05)

    assert run(tmp_path, {"supervisor/shutdown": {"result": {}}}, "shutdown") == 1
    assert "cannot see the daemon end within 0.05 s" in capsys.readouterr().err


def test_an_unreachable_daemon_is_exit_69_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--socket", str(tmp_path / "none.sock")]) == 69
    assert "start it with 'mcp-supervisor run'" in capsys.readouterr().err


def test_a_daemon_that_dies_under_the_question_is_exit_69(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {"servers/list": hang_up}, "status") == 69
    assert "cannot learn what became of servers/list" in capsys.readouterr().err


def test_with_json_an_error_is_an_object_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": -32003, "message": "cannot ask", "data": {"server": "files"}}

    assert run(tmp_path, {"servers/list": {"error": error}}, "status", "--json") == 1
    assert json.loads(capsys.readouterr().out) == {"error": error}


def test_a_servers_last_words_follow_the_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"stderr": [f"line {count}\x1b" for count in range(9)]}
    error = {"code": -32042, "message": "no luck", "data": said}

    assert run(tmp_path, {"servers/list": {"error": error}}, "status") == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "mcp-supervisor: cannot do that, the answer is an error: no luck"
    assert rest == [rf"  | line {count}\x1b" for count in range(4, 9)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["dance"],
        ["status", "a", "b"],
        ["version", "x"],
        ["tools", "--al"],
        ["call"],
        ["call", "x", "--timeout", "nan"],
    ],
)
def test_a_wrong_command_line_is_exit_2_with_advice(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "cannot understand" in (said := capsys.readouterr().err)
    assert "--help" in said


def test_a_wrong_command_line_is_an_object_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "dance"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == -32602


@pytest.mark.parametrize("verb", MODULES)
def test_every_verb_has_help_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"examples:\n  mcp-supervisor {verb}" in shown
    assert max(map(cells, shown.splitlines())) <= 80


def test_the_help_names_every_verb_within_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("    ") and line[4] != " "] == list(MODULES)
    assert max(map(cells, lines)) <= 80


def test_run_hands_its_options_to_the_daemon() -> None:
    words = "run --json --config a.json --config b.json --socket /s --log-level debug --loop asyncio"

    # Not run here: it holds back the signals of the process for good.
    command = parse(words.split())

    assert isinstance(command, partial)
    assert for_daemon(*command.args) == Options(
        config=("a.json", "b.json"), socket="/s", log_format="json", log_level="debug", loop="asyncio"
    )


def test_a_bad_config_is_exit_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"x": {"command": 1}}}')

    assert main(["check", str(tmp_path / "mcp.json")]) == 78
    assert "command" in capsys.readouterr().out


def test_a_good_config_is_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"x": {"command": "cat"}}}')

    assert main(["check", "--json", str(tmp_path / "mcp.json")]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_a_file_to_check_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "typo.json")]) == 78
    assert "there is no such file" in capsys.readouterr().err
