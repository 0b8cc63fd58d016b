"""Tables that fit, colours that stay off, durations that read well."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.detail import server_lines
from supervisor.cli.render import (
    RED,
    Column,
    cells,
    coloured,
    duration,
    fit,
    paint,
    screen_width,
    table,
    wrap,
)
from supervisor.cli.status import STATE_COLOURS


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (3.9, "3 s"),
        (60, "1 min"),
        (299, "4 min"),
        (7200, "2 h"),
        (7800, "2 h 10 min"),
        (86399, "23 h 59 min"),
        (3 * 86400 + 5, "3 d"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("a bc", 3, "a…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
    ],
)
def test_a_text_is_cut_to_its_cells_with_a_mark(text: str, width: int, shown: str) -> None:
    assert fit(text, width) == shown


def test_combining_marks_take_no_cell() -> None:
    assert cells("e\u0301") == 1


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=120)), max_size=5), st.integers(40, 120))
def test_no_line_of_a_table_is_wider_than_the_screen(rows: list[tuple[str, str]], width: int) -> None:
    lines = table((Column("NAME", most=20), Column("NOTE")), rows, width=width)

    assert len(lines) == len(rows) + 1
    assert max(map(cells, lines)) <= width


def test_numbers_stand_at_the_right_and_words_have_their_colour() -> None:
    columns = (Column("STATE", colours={"bad": RED}), Column("N", right=True), Column("NOTE"))

    assert table(columns, [("bad", "10", "bad"), ("good", "2", "")], width=40) == [
        "STATE   N  NOTE",
        "\x1b[31mbad\x1b[0m    10  bad",
        "good    2",
    ]


@pytest.mark.parametrize(
    ("no_color", "term", "wanted"), [("", "xterm", True), ("1", "xterm", False), ("", "dumb", False)]
)
def test_colour_is_for_terminals_whose_user_wants_it(
    monkeypatch: pytest.MonkeyPatch, no_color: str, term: str, wanted: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stdout", FakeTerminal())

    assert coloured() is wanted


def test_a_pipe_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    assert not coloured()


def test_without_a_colour_the_text_stays() -> None:
    assert paint("text", None) == "text"


def test_one_servers_state_is_coloured_too() -> None:
    known = {"name": "x", "state": "unavailable"}
    lines = server_lines(known, now=0.0, width=80, colours=STATE_COLOURS)

    assert lines == ["name:   x", "state:  \x1b[31munavailable\x1b[0m"]


def test_a_very_narrow_screen_is_taken_as_forty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "5")

    assert screen_width() == 40


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one two", ["> one", "  two"]),
        ("a b c d", ["> a b", "  c d"]),
        ("abcdefgh i", ["> abc", "  def", "  gh", "  i"]),
        ("a bcdef", ["> a", "  bcd", "  ef"]),
        ("日本語", ["> 日", "  本", "  語"]),
    ],
)
def test_a_text_is_broken_between_words_where_that_is_possible(text: str, lines: list[str]) -> None:
    assert wrap(text, 5, first="> ", rest="  ") == lines


@given(st.text(max_size=200), st.integers(4, 40))
def test_wrapping_loses_nothing_and_fits(text: str, width: int) -> None:
    lines = wrap(text, width, first="", rest="")

    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(cells(line) <= width for line in lines)
