"""Verbs that change something: orders to servers, and `reload`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from tests.cli_support import Answer, Connection, Message, ScriptedDaemon, hang_up, scripted_daemon


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run(tmp_path: Path, answers: Mapping[str, Answer], *words: str) -> tuple[int, ScriptedDaemon]:
    with scripted_daemon(tmp_path, answers) as daemon:
        return main([*words, "--socket", daemon.path]), daemon


def view(name: str, state: str, reason: str = "") -> dict[str, Any]:
    return {"name": name, "state": state, "reason": reason}


def answer_by_name(connection: Connection, message: Message) -> None:
    """Do as the name of the server says, the last one asked first."""
    match message["params"]["server"]:
        case "unknown":
            error = {"code": -32001, "message": "cannot find server 'unknown'"}
            connection.send({"id": message["id"], "error": error})
        case "broken":
            error = {"code": -32003, "message": "cannot start broken", "data": {"stderr": ["no key"]}}
            connection.send({"id": message["id"], "error": error})
        case name:
            connection.send({"id": message["id"], "result": view(name, "connected")})


@pytest.mark.parametrize(
    ("order", "state"),
    [
        ("start", "connected"),
        ("stop", "stopped"),
        ("restart", "idle"),
        ("enable", "connected"),
        ("disable", "disabled"),
    ],
)
def test_an_order_is_carried_out_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str, state: str
) -> None:
    status, daemon = run(tmp_path, {f"servers/{order}": {"result": view("files", state)}}, order, "files")

    assert (status, capsys.readouterr().out) == (0, f"files: {state}\n")
    assert daemon.asked(f"servers/{order}") == {"server": "files", "wait": True}


@pytest.mark.parametrize(("order", "state"), [("start", "unavailable"), ("stop", "stopping")])
def test_an_order_that_ends_otherwise_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str, state: str
) -> None:
    answer = {"result": view("files", state, "exit code 1\x1b")}

    assert run(tmp_path, {f"servers/{order}": answer}, order, "files")[0] == 1
    assert capsys.readouterr().err == f"files: {state} (exit code 1\\x1b)\n"


def test_an_order_need_not_be_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"result": view("files", "connecting")}
    status, daemon = run(tmp_path, {"servers/start": answer}, "start", "files", "--no-wait")

    assert (status, capsys.readouterr().out) == (0, "files: connecting\n")
    assert daemon.asked("servers/start") == {"server": "files", "wait": False}


@pytest.mark.parametrize(
    ("names", "status"), [(["a", "b", "a"], 0), (["a", "broken"], 1), (["unknown", "broken", "a"], 3)]
)
def test_the_exit_of_several_orders_is_that_of_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str], status: int
) -> None:
    found, daemon = run(tmp_path, {"servers/start": answer_by_name}, "start", *names)

    assert found == status
    assert [message["params"]["server"] for message in daemon.seen] == list(dict.fromkeys(names))
    said = capsys.readouterr()
    assert "a: connected\n" in said.out
    assert ("  | no key\n" in said.err) == ("broken" in names)


def test_programs_get_all_answers_by_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"servers/stop": answer_by_name}, "stop", "unknown", "a", "--json")[0] == 3
    assert json.loads(capsys.readouterr().out) == {
        "servers": {
            "unknown": {"error": {"code": -32001, "message": "cannot find server 'unknown'"}},
            "a": view("a", "connected"),
        }
    }


def test_a_daemon_that_dies_under_an_order_is_exit_69(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {"servers/restart": hang_up}, "restart", "a")[0] == 69
    assert "cannot learn what became of servers/restart" in capsys.readouterr().err


def test_an_order_needs_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start"]) == 2
    assert "SERVER" in capsys.readouterr().err


def reloaded(**more: Any) -> dict[str, Any]:
    plan = {"old": "remove", "same": "unchanged", "files": "replace", "new": "add"}
    results = {"old": "ok", "files": "ok", "new": "ok"}
    return {"result": {"generation": 3, "plan": plan, "results": results, "problems": [], **more}}


def test_reload_tells_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, daemon = run(tmp_path, {"supervisor/reload": reloaded()}, "reload")

    assert (status, daemon.asked("supervisor/reload")) == (0, {})
    assert capsys.readouterr().out.splitlines() == [
        "CHANGE   SERVER  RESULT",
        "replace  files   ok",
        "add      new     ok",
        "remove   old     ok",
        "3 changed, 1 unchanged",
    ]


def test_a_dry_run_changes_nothing_and_says_what_would_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, daemon = run(tmp_path, {"supervisor/reload": reloaded(results={})}, "reload", "--dry-run")

    assert (status, daemon.asked("supervisor/reload")) == (0, {"dryRun": True})
    assert "replace  files   would be done\n" in capsys.readouterr().out


def test_a_reload_that_changes_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = reloaded(plan={"same": "unchanged"}, results={})

    assert run(tmp_path, {"supervisor/reload": answer}, "reload")[0] == 0
    assert capsys.readouterr().out == "0 changed, 1 unchanged\n"


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (reloaded(results={"new": "exit code 1"}), 1, "add      new     exit code 1"),
        (reloaded(problems=["mcp.json: $.x: wrong"]), 78, "problem: mcp.json: $.x: wrong"),
        ({"error": {"code": -32010, "message": "cannot use the configuration"}}, 78, "cannot use the conf"),
    ],
)
def test_the_exit_of_a_reload_tells_how_it_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: Answer, status: int, said: str
) -> None:
    assert run(tmp_path, {"supervisor/reload": answer}, "reload")[0] == status
    shown = capsys.readouterr()
    assert said in shown.out + shown.err


def test_programs_get_the_whole_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, {"supervisor/reload": reloaded()}, "reload", "--json")

    assert json.loads(capsys.readouterr().out) == reloaded()["result"]
