"""`why`: one screen, the state and what to do first."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli import main
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
        ({"noise": {"count": 2, "samples": ["hi\x1b"]}}, "noise      2 lines on stdout that were not MCP"),
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


@pytest.mark.parametrize(("height", "shown"), [(24, 13), (10, 5)])
def test_stderr_takes_what_the_screen_has_left(height: int, shown: int) -> None:
    said = [{"at": NOW, "text": str(number)} for number in range(20)]

    told = lines(why(stderr=said), now=NOW, width=80, height=height, colour=False)

    assert told[-shown - 1 :] == ["stderr:", *(f"  | {number}" for number in range(20 - shown, 20))]


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
    assert daemon.asked("servers/why") == {"server": "files"}
    assert json.loads(out) == why() if words else out.startswith("files: unavailable for ")
