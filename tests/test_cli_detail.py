"""`status SERVER`: everything about one server, readable at eighty columns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.detail import server_lines
from supervisor.cli.render import cells
from supervisor.cli.status import STATE_COLOURS

NOW = 1_800_000_000.0
END = {"reason": "exited with code 3", "code": 3, "signal": None}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=90), inner, max_size=3),
    max_leaves=8,
)


def told(**facts: Any) -> list[str]:
    return server_lines({"name": "files", **facts}, now=NOW, width=80, colours={})


@pytest.mark.parametrize(
    ("fact", "lines"),
    [
        ({"serverInfo": {"name": "fake", "version": "1"}}, ["serverInfo:  fake 1"]),
        ({"serverInfo": {"name": "x", "title": "The X"}}, ["serverInfo:  x, title The X"]),
        ({"serverInfo": {"odd": 1}}, ["serverInfo:  odd 1"]),
        ({"args": ["-m", "files"]}, ["args:  -m files"]),
        (
            {"ends": [{**END, "at": NOW - 90}, {**END, "at": NOW - 60}, {"reason": "lost", "at": NOW - 3}]},
            ["ends:  lost (3 s ago)", "       2 x exited with code 3 (1 min ago)"],
        ),
        (
            {"leftOut": [{"tool": name, "reason": "it writes"} for name in ("rm", "mv")]},
            ["leftOut:  rm, mv: it writes"],
        ),
        ({"stderr": ["one", "two  words\x1b"]}, ["stderr:  | one", r"         | two  words\x1b"]),
        ({"news": [{"a": 1, "b": None}, {"c": [1, 2]}]}, ["news:  a 1", "       c [1, 2]"]),
        ({"nothing": None, "empty": [], "blank": " "}, []),
    ],
)
def test_a_fact_is_told_in_words(fact: dict[str, Any], lines: list[str]) -> None:
    first, *rest = told(**fact)

    assert first.split() == ["name:", "files"]
    assert rest == lines


def test_a_long_fact_is_wrapped_below_itself() -> None:
    lines = told(args=["word"] * 40)

    assert len(lines) == 4
    assert all(line.startswith("       word") for line in lines[2:])


def test_only_the_state_is_coloured() -> None:
    known = {"name": "stopped", "state": "stopped", "phase": "stopped"}

    lines = server_lines(known, now=NOW, width=80, colours=STATE_COLOURS)

    assert lines == ["name:   stopped", "state:  \x1b[2mstopped\x1b[0m", "phase:  stopped"]


@given(st.text(max_size=90), VALUES)
def test_whatever_a_daemon_tells_no_line_is_wider_than_the_screen(key: str, value: Any) -> None:
    for known in ({key: value}, {"stderr": [value]}, {"ends": [{**END, "at": NOW, "reason": str(value)}]}):
        assert max(map(cells, told(**known))) <= 80
