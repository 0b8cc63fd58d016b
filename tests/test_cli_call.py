"""`call` and `tools`: from words to a request, from a result to text."""

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main
from supervisor.cli.call import flatten, progress_line
from supervisor.surfaces.exchange import Progress
from tests.cli_support import Answer, Connection, Message, ScriptedDaemon, hang_up, scripted_daemon

SCHEMA = {"properties": {"count": {"type": "integer"}}}
OK = {"result": {"content": [{"type": "text", "text": "done"}]}}
TOOL = {
    "result": {"tool": {"name": "demo_x", "inputSchema": SCHEMA}, "server": "demo", "approval": "confirm"}
}
TOOLS: dict[str, Any] = {
    "tools": [
        {
            "name": "demo_read",
            "description": "\nReads a file.\nMore.",
            "annotations": {"readOnlyHint": True},
            "_meta": {"server": "demo", "approval": "auto"},
        },
        {"name": "demo_write", "title": "Write", "annotations": {"readOnlyHint": False}},
        {
            "name": "other_plain",
            "description": "\x1b[2J" + "日本 " * 30,
            "_meta": {"approval": "confirm"},
        },
        {"name": "other_bare", "description": 5, "annotations": [], "_meta": None},
    ],
    "generation": 4,
    "complete": True,
    "pending": [],
}
LEFT_OUT = [
    {"server": "demo", "tool": "rm", "name": "demo_rm", "reason": "it says readOnlyHint: false"},
    {"server": "other", "tool": "x", "name": "other_x", "reason": "name taken"},
]


class Talk:
    """One run of the command, and what the daemon saw of it."""

    def __init__(self, status: int, daemon: ScriptedDaemon) -> None:
        self.status, self.daemon = status, daemon


def talk(tmp_path: Path, answers: Mapping[str, Answer], *words: str) -> Talk:
    with scripted_daemon(tmp_path, {"tools/get": TOOL, "tools/call": OK, **answers}) as daemon:
        return Talk(main(["--socket", daemon.path, *words]), daemon)


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_call_prints_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoken = talk(tmp_path, {}, "call", "demo_x")

    assert (spoken.status, capsys.readouterr().out) == (0, "done\n")
    assert spoken.daemon.asked("tools/call") == {"name": "demo_x", "arguments": {}}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["count=3", "name=3"], {"count": 3, "name": "3"}),
        (["name:=3"], {"name": 3}),
        (['{"name": [1]}'], {"name": [1]}),
        (["count=3", "--approve", "name=x"], {"count": 3, "name": "x"}),
    ],
)
def test_arguments_are_read_by_the_tools_schema(
    tmp_path: Path, words: list[str], arguments: dict[str, Any]
) -> None:
    assert talk(tmp_path, {}, "call", "demo_x", *words).daemon.asked("tools/call")["arguments"] == arguments


def test_the_schema_is_asked_for_only_when_it_matters(tmp_path: Path) -> None:
    seen = talk(tmp_path, {}, "call", "demo_x", "count:=3").daemon.seen

    assert [message["method"] for message in seen] == ["tools/call"]


def test_arguments_can_come_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"from": "stdin"}'))

    assert talk(tmp_path, {}, "call", "demo_x", "-").daemon.asked("tools/call")["arguments"] == {
        "from": "stdin"
    }


def test_timeout_and_approval_travel_with_the_call(tmp_path: Path) -> None:
    asked = talk(tmp_path, {}, "call", "demo_x", "--timeout", "2.5", "--approve").daemon.asked("tools/call")

    assert asked == {"name": "demo_x", "arguments": {}, "approved": True, "timeout": 2.5}


def test_a_call_names_its_agent(tmp_path: Path) -> None:
    assert talk(tmp_path, {}, "call", "demo_x", "--agent", "a").daemon.asked("tools/call")["agent"] == "a"


def test_wrong_words_are_refused_before_anyone_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "demo_x", "no-pair", "--socket", "/nowhere"]) == 2
    assert "key=value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "image", "data": "x"}]}, '{"type": "image", "data": "x"}'),
        ({"content": []}, "(no output)"),
        ({}, "(no output)"),
        ({"content": [{"type": "text", "text": 5}]}, '{"type": "text", "text": 5}'),
    ],
)
def test_a_result_is_flattened(result: dict[str, Any], text: str) -> None:
    assert flatten(result) == text


def test_escapes_of_a_server_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = {"result": {"content": [{"type": "text", "text": "line\n\x1b]0;title\x07\ud800"}]}}

    talk(tmp_path, {"tools/call": evil}, "call", "demo_x")

    assert capsys.readouterr().out == "line\n\\x1b]0;title\\x07\\ud800\n"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"content": [{"type": "text", "text": "no such zone"}], "isError": True}, "no such zone"),
        ({"resultType": "input_required"}, "asks for input"),
    ],
)
def test_a_tools_own_error_goes_to_stderr_with_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], result: dict[str, Any], said: str
) -> None:
    spoken = talk(tmp_path, {"tools/call": {"result": result}}, "call", "demo_x")

    shown = capsys.readouterr()
    assert (spoken.status, shown.out) == (1, "")
    assert said in shown.err


def test_programs_get_a_tools_own_error_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"content": [], "isError": True}

    assert talk(tmp_path, {"tools/call": {"result": failed}}, "--json", "call", "demo_x").status == 1
    assert json.loads(capsys.readouterr().out) == failed


@pytest.mark.parametrize(
    ("asked", "advice"),
    [("demo_raed", "; did you mean demo_read, demo_write?"), ("zzz", "")],
)
def test_an_unknown_tool_is_answered_with_near_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str, advice: str
) -> None:
    unknown = {
        "error": {"code": -32002, "message": f"cannot find tool '{asked}'", "data": {"outcome": "rejected"}}
    }
    answers: dict[str, Answer] = {"tools/get": unknown, "tools/list": {"result": TOOLS}}

    assert talk(tmp_path, answers, "call", asked, "a=1").status == 1
    assert capsys.readouterr().err == f"mcp-supervisor: cannot find tool '{asked}'{advice}\n"


REFUSED = {"error": {"code": -32008, "message": "cannot call demo_x without approval"}}


@pytest.mark.parametrize(
    ("words", "definition", "advised"),
    [
        ([], TOOL, True),
        (["--approve"], TOOL, False),
        ([], {"result": {"approval": "auto"}}, False),
        ([], hang_up, False),
    ],
)
def test_approval_is_advised_where_it_would_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], definition: Answer, advised: bool
) -> None:
    answers: dict[str, Answer] = {"tools/call": REFUSED, "tools/get": definition}

    assert talk(tmp_path, answers, "call", "demo_x", *words).status == 1
    said = capsys.readouterr().err
    assert said.startswith("mcp-supervisor: cannot call demo_x without approval")
    assert ("repeat with --approve" in said) == advised


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_progress_and_wipes_it_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(connection: Connection, message: Message) -> None:
        token = message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1, "total": 3, "message": "half\rway"}
        connection.send({"method": "notifications/progress", "params": progress})
        connection.send({"method": "notifications/other", "params": {}})
        connection.send({"id": message["id"], **OK})

    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    assert talk(tmp_path, {"tools/call": work}, "call", "demo_x").status == 0
    assert terminal.getvalue() == "\r\x1b[K1/3 half\\rway\r\x1b[K"


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress(1, None, None), "1"),
        (Progress(0.5, 1.0, None), "0.5/1.0"),
        (Progress(1, None, "half"), "1 half"),
    ],
)
def test_progress_is_told_as_far_as_known(progress: Progress, line: str) -> None:
    assert progress_line(progress) == line


def tools(tmp_path: Path, answer: Mapping[str, Any], *words: str) -> Talk:
    return talk(tmp_path, {"tools/list": {"result": answer}}, "tools", *words)


def test_tools_lists_name_access_and_first_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tools(tmp_path, TOOLS).status == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:3]] == [
        ["TOOL", "ACCESS", "DESCRIPTION"],
        ["demo_read", "read-only", "Reads"],
        ["demo_write", "writes", "Write"],
    ]
    assert lines[3].startswith(r"other_plain  confirm    \x1b[2J日本")
    assert lines[4].split() == ["other_bare", "-"]
    assert lines[5] == "4 tools"


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["demo_*"], ["demo_read", "demo_write"]),
        (["*", "!demo_*"], ["other_plain", "other_bare"]),
        (["!demo_*"], ["other_plain", "other_bare"]),
        (["demo_read", "--json", "other_bare"], ["demo_read", "other_bare"]),
        (["nothing"], []),
    ],
)
def test_patterns_choose_by_public_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], patterns: list[str], names: list[str]
) -> None:
    tools(tmp_path, TOOLS, "--json", *patterns)

    assert [tool["name"] for tool in json.loads(capsys.readouterr().out)["tools"]] == names


def test_all_shows_what_is_left_out_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoken = tools(tmp_path, {**TOOLS, "tools": [], "leftOut": LEFT_OUT}, "--all", "--server", "demo")

    out = capsys.readouterr().out
    assert spoken.daemon.asked("tools/list") == {"all": True, "server": "demo"}
    assert "demo_rm   demo    it says readOnlyHint: false" in out
    assert "other_x" not in out
    assert out.endswith("no tools\n")


def test_tools_of_an_agent_are_chosen_by_the_daemon(tmp_path: Path) -> None:
    assert tools(tmp_path, TOOLS, "--agent", "a").daemon.asked("tools/list") == {"agent": "a"}


def test_an_incomplete_list_says_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools(tmp_path, {**TOOLS, "tools": TOOLS["tools"][:1], "complete": False, "pending": ["slow", "er"]})

    assert capsys.readouterr().out.endswith("1 tool; incomplete, still starting: slow, er\n")
