"""`why`: one screen, the state and what to do first."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli import main
from supervisor.cli.blocks import SHORTENED
from supervisor.cli.render import cells
from supervisor.cli.why import lines
from tests.cli_support import scripted_daemon

NOW = 1_800_000_000.0


def why(**more: Any) -> dict[str, Any]:
    return {
        "server": "files",
        "state": "unavailable",
        "phase": "backoff",
        "reason": "exit code 1",
        "since": NOW - 240,
        "suggestions": [
            {"kind": "credentials", "cause": "It looks like it needs a key.", "fix": "Give it one."}
        ],
        "source": "/etc/mcp.json",
        "transport": "stdio",
        "problems": [],
        "missingVariables": [],
        "launch": None,
        "protocol": None,
        "timeline": [],
        "ends": [],
        "stderr": [],
        "noise": {"count": 0, "samples": []},
        "nextTry": None,
        **more,
    }


LAUNCH = {
    "command": "npx",
    "args": ["-y", "server"],
    "executable": "/usr/bin/npx",
    "cwd": "/srv",
    "environment": ["HOME", "PATH"],
    "path": [{"directory": "/bin", "exists": True}, {"directory": "/opt", "exists": False}],
}


def told(**more: Any) -> list[str]:
    return lines(why(**more), now=NOW, width=80, height=24, colour=False)


def test_state_and_reason_come_first_and_what_to_do_next() -> None:
    assert told()[:6] == [
        "files: unavailable for 4 min",
        "exit code 1",
        "",
        "* It looks like it needs a key.",
        "  -> Give it one.",
        "",
    ]


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"problems": ["command must be a text"]}, "problem    command must be a text"),
        ({"launch": LAUNCH}, "command    npx -y server"),
        ({"launch": LAUNCH}, "runs       /usr/bin/npx"),
        ({"launch": LAUNCH}, "in         /srv"),
        ({"launch": {**LAUNCH, "executable": None}}, "runs       nothing: no such program was found"),
        ({"launch": {**LAUNCH, "executable": None}}, "PATH       /bin, /opt (absent)"),
        ({"launch": LAUNCH}, "variables  HOME, PATH"),
        ({"missingVariables": ["TOKEN"]}, "missing    TOKEN"),
        ({"protocol": "2025-11-25"}, "transport  stdio, protocol 2025-11-25"),
        (
            {"timeline": [{"what": "spawned", "offset": 0.0}, {"what": "heard", "offset": 0.25}]},
            "last start spawned +0.00 s, heard +0.25 s",
        ),
        ({"nextTry": NOW + 3.5}, "next try   in 3 s"),
        ({"noise": {"count": 2, "samples": ["hi\x1b"]}}, "noise      2 lines on stdout, not MCP"),
        ({"noise": {"count": 1, "samples": []}}, "noise      1 line on stdout, not MCP"),
        ({"noise": {"count": 2, "samples": ["hi\x1b"]}}, r"  | hi\x1b"),
        ({"stderr": [{"at": NOW, "text": "no key"}]}, "  | no key"),
    ],
)
def test_what_is_known_is_shown(known: dict[str, Any], line: str) -> None:
    assert line in told(**known)


def test_what_is_not_known_takes_no_line() -> None:
    assert told()[6:] == ["config     /etc/mcp.json", "transport  stdio"]


def test_ends_for_the_same_reason_are_counted_the_latest_first() -> None:
    ends = [{"reason": reason, "at": NOW - ago} for reason, ago in (("a", 90), ("b", 60), ("b", 30))]

    assert [line for line in told(ends=ends) if line.startswith("ended")] == [
        "ended      2 x b (30 s ago)",
        "ended      a (1 min ago)",
    ]


SAID = [{"at": NOW, "text": str(number)} for number in range(20)]


@pytest.mark.parametrize(("height", "shown"), [(23, 12), (14, 3)])
def test_stderr_takes_what_the_screen_has_left(height: int, shown: int) -> None:
    told = lines(why(stderr=SAID), now=NOW, width=80, height=height, colour=False)

    quoted = [f"  | {number}" for number in range(20 - shown, 20)]
    assert told[-shown - 2 :] == ["stderr:", *quoted, SHORTENED]
    assert len(told) == height


def test_a_pipe_gets_everything() -> None:
    ends = [{"reason": f"exit code {number}", "at": NOW - number} for number in range(10)]

    told = lines(why(stderr=SAID, ends=ends), now=NOW, width=80, height=None, colour=False)

    assert [sum(line.startswith(start) for line in told) for start in ("  | ", "ended")] == [20, 10]
    assert SHORTENED not in told


LONG = [{"directory": f"/opt/a/rather/long/directory/{number}", "exists": True} for number in range(40)]


def test_of_a_program_that_is_nowhere_the_path_is_told_once_and_a_screen_has_the_fix() -> None:
    reason = "cannot find the command npx on PATH; give its full path"
    launch = {**LAUNCH, "executable": None, "path": LONG}
    known = {"reason": reason, "launch": launch, "stderr": SAID, "ends": [{"reason": reason, "at": NOW - 6}]}

    whole = lines(why(**known), now=NOW, width=80, height=None, colour=False)
    screen = lines(why(**known), now=NOW, width=80, height=23, colour=False)

    assert " ".join(whole).count("/directory/7,") == 1
    assert "ended      as said above (6 s ago)" in screen
    assert screen[:5] == whole[:5]
    assert (len(screen), screen[-1]) == (23, SHORTENED)


@pytest.mark.parametrize(
    ("launch", "shown"),
    [
        ({"executable": "/srv/thing"}, "/srv/thing"),
        ({"executable": None, "command": "/srv/thing"}, "nothing: no such program was found"),
        ({"executable": None, "path": []}, "unknown: its entry cannot be filled in"),
    ],
)
def test_path_is_shown_only_to_who_misses_something_on_it(launch: dict[str, Any], shown: str) -> None:
    shown_lines = told(launch={**LAUNCH, **launch})

    assert f"runs       {shown}" in shown_lines
    assert not [line for line in shown_lines if line.startswith("PATH")]


def test_a_further_cause_is_told_whole_or_not_at_all() -> None:
    causes = [{"kind": str(number), "cause": f"cause {number}", "fix": "fix it"} for number in range(3)]
    enough, scarce = (
        lines(why(suggestions=causes, stderr=SAID), now=NOW, width=80, height=height, colour=False)
        for height in (24, 17)
    )

    assert [line for line in enough if line.startswith("* ")] == ["* cause 0", "* cause 1", "* cause 2"]
    assert [line for line in scarce if line.startswith("* ")] == ["* cause 0", "* cause 1"]
    assert scarce.count("  -> fix it") == 2


@given(st.text(max_size=600), st.integers(min_value=3, max_value=40))
def test_a_screen_never_overflows(text: str, height: int) -> None:
    suggestion = {"kind": "x", "cause": text, "fix": text}
    known = why(reason=text, stderr=SAID, problems=[text], suggestions=[suggestion] * 2, launch=LAUNCH)

    told = lines(known, now=NOW, width=80, height=height, colour=False)

    assert len(told) <= height
    assert max(map(cells, told)) <= 80
    assert told[0].startswith("files: unavailable")


def test_on_a_terminal_the_state_is_coloured() -> None:
    first = lines(why(), now=NOW, width=80, height=24, colour=True)[0]

    assert first == "files: \x1b[31munavailable\x1b[0m for 4 min"


@given(st.text(max_size=300))
def test_no_line_is_wider_than_the_screen(text: str) -> None:
    said = [{"at": NOW, "text": text}]
    suggestion = {"kind": "x", "cause": text, "fix": text}

    for line in told(reason=text, stderr=said, problems=[text], suggestions=[suggestion]):
        assert cells(line) <= 80


@pytest.mark.parametrize("words", [["--json"], []])
def test_why_asks_for_one_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with scripted_daemon(tmp_path, {"servers/why": {"result": why()}}) as daemon:
        assert main(["why", "files", *words, "--socket", daemon.path]) == 0

    out = capsys.readouterr().out
    assert SHORTENED not in out
    assert daemon.asked("servers/why") == {"server": "files"}
    assert json.loads(out) == why() if words else out.startswith("files: unavailable for ")


def test_on_a_terminal_the_answer_leaves_a_line_for_the_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with scripted_daemon(tmp_path, {"servers/why": {"result": why(stderr=SAID)}}) as daemon:
        assert main(["why", "files", "--socket", daemon.path]) == 0

    assert len(capsys.readouterr().out.splitlines()) == 23
