"""Verbs that show what happens: `events`, `logs`, `agents`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from supervisor.cli.agents import HOW_TO_BEGIN
from supervisor.cli.events import event_line
from supervisor.cli.render import moment
from tests.cli_support import Answer, Connection, Message, ScriptedDaemon, scripted_daemon

NOON = 1_800_000_000.0
STAMP = moment(NOON)
LINES = [{"at": NOON, "text": "started"}, {"at": NOON, "text": "key\x1b[31m"}]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run(tmp_path: Path, answers: Mapping[str, Answer], *words: str) -> tuple[int, ScriptedDaemon]:
    with scripted_daemon(tmp_path, answers) as daemon:
        return main([*words, "--socket", daemon.path]), daemon


def follow(method: str, result: Any, *news: Message) -> Callable[[Connection, Message], None]:
    """Answer, send the news, and end."""

    def answer(connection: Connection, message: Message) -> None:
        connection.send({"id": message["id"], "result": result})
        for each in news:
            connection.send({"method": method, "params": each})
        connection.close()

    return answer


TRANSITION = {
    "kind": "transition",
    "at": NOON,
    "server": "files",
    "before": "ready",
    "phase": "unavailable",
    "state": "unavailable",
    "reason": "exit code 1\n",
    "run": 2,
}


def catalog(**more: Any) -> Message:
    usual = {"generation": 7, "causes": ["files: ready"], "changed": [], "removed": []}
    return {"kind": "catalog", "at": NOON, **usual, **more}


def reload(**more: Any) -> Message:
    return {"kind": "reload", "at": NOON, "ok": True, "plan": {}, "problems": [], **more}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (TRANSITION, r"files: ready -> unavailable: exit code 1\n"),
        (catalog(changed=["a", "b"], removed=["c"]), "catalog 7: +a +b -c (files: ready)"),
        (catalog(changed=list("abcde")), "catalog 7: +a +b +c and 2 more (files: ready)"),
        (catalog(), "catalog 7: as before (files: ready)"),
        (reload(), "reload done: nothing changed"),
        (
            reload(ok=False, plan={"a": "add", "b": "unchanged"}, problems=["wrong"]),
            "reload failed: add a; wrong",
        ),
        ({"kind": "log", "at": NOON, "server": "files", "text": "hello\x1b"}, r"files | hello\x1b"),
        ({"kind": "new", "at": NOON}, '{"kind": "new", "at": 1800000000.0}'),
    ],
)
def test_an_event_is_one_line_with_its_time(event: Message, told: str) -> None:
    assert event_line(event, colour=False) == f"{STAMP} {told}"


def test_events_are_printed_until_the_daemon_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"kind": "lost", "count": 4}
    answers: dict[str, Answer] = {"events/subscribe": follow("notifications/events", {}, TRANSITION, lost)}

    status, daemon = run(tmp_path, answers, "events", "--kind", "transition", "--kind", "log")

    shown = capsys.readouterr()
    assert (status, len(shown.out.splitlines())) == (69, 2)
    assert "lost 4 events" in shown.out
    assert "cannot hear more of events/subscribe: the daemon closed the connection" in shown.err
    assert daemon.asked("events/subscribe") == {"kinds": ["transition", "log"]}


def test_programs_get_one_event_per_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: dict[str, Answer] = {"events/subscribe": follow("notifications/events", {}, TRANSITION)}

    _, daemon = run(tmp_path, answers, "events", "--json")

    assert json.loads(capsys.readouterr().out.splitlines()[0]) == TRANSITION
    assert daemon.asked("events/subscribe") == {}


def test_on_a_terminal_the_new_phase_is_coloured() -> None:
    assert "-> \x1b[31munavailable\x1b[0m:" in event_line(TRANSITION, colour=True)


def test_logs_shows_the_last_lines_with_their_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Answer] = {"servers/logs": {"result": {"server": "files", "lines": LINES}}}

    status, daemon = run(tmp_path, answers, "logs", "files", "-n", "2")

    assert status == 0
    assert capsys.readouterr().out == f"{STAMP} started\n{STAMP} key\\x1b[31m\n"
    assert daemon.asked("servers/logs") == {"server": "files", "lines": 2}


def test_programs_get_the_lines_as_they_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"server": "files", "lines": LINES, "bytes": 9}

    assert run(tmp_path, {"servers/logs": {"result": answer}}, "logs", "files", "--json")[0] == 0
    assert json.loads(capsys.readouterr().out) == answer


@pytest.mark.parametrize("as_json", [False, True])
def test_logs_can_be_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    news = [{"kind": "log", "at": NOON, "server": "files", "text": "more"}, {"kind": "lost", "count": 2}]
    answers: dict[str, Answer] = {"servers/logs": follow("notifications/log", {"lines": LINES}, *news)}

    status, daemon = run(tmp_path, answers, "logs", "-f", "files", *(["--json"] if as_json else []))

    shown = capsys.readouterr()
    assert (status, daemon.asked("servers/logs")) == (69, {"server": "files", "follow": True})
    if as_json:
        assert [json.loads(line) for line in shown.out.splitlines()[:4]] == [*LINES, *news]
    else:
        assert shown.out.splitlines()[2:] == [f"{STAMP} more"]
        assert "(lost 2 lines" in shown.err


def test_the_log_of_an_unknown_server_is_exit_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {"error": {"code": -32001, "message": "cannot find server 'x'"}}

    assert run(tmp_path, {"servers/logs": unknown}, "logs", "x", "-f")[0] == 3
    assert "cannot find server" in capsys.readouterr().err


def test_agents_are_listed_with_how_many_tools_each_sees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = [{"name": "clock", "patterns": ["demo_*", "!demo_wait"], "source": "f", "tools": 2}]

    assert run(tmp_path, {"agents/list": {"result": {"agents": agents}}}, "agents")[0] == 0
    assert capsys.readouterr().out.splitlines()[1] == "clock      2  demo_* !demo_wait"


def test_without_agents_it_says_how_to_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"agents/list": {"result": {"agents": []}}}, "agents")[0] == 0
    assert capsys.readouterr().out == f"{HOW_TO_BEGIN}\n"


@pytest.mark.parametrize(("tools", "counted"), [(["demo_now"], "1 tool"), (["a", "b"], "2 tools")])
def test_one_agent_is_shown_with_its_tools_and_what_no_server_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tools: list[str], counted: str
) -> None:
    agent = {"name": "c", "patterns": ["demo_now", "x"], "source": "/f", "tools": tools, "unmatched": ["x"]}

    _, daemon = run(tmp_path, {"agents/get": {"result": agent}}, "agents", "c")

    lines = capsys.readouterr().out.splitlines()
    assert lines == ["c: demo_now x", "from /f", *(f"  {t}" for t in tools), "no server has x", counted]
    assert daemon.asked("agents/get") == {"agent": "c"}


def test_programs_get_the_agents_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, {"agents/list": {"result": {"agents": []}}}, "agents", "--json")

    assert json.loads(capsys.readouterr().out) == {"agents": []}
