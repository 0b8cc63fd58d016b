"""Nothing that acts on a terminal gets through."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.printable import one_line, paragraphs


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, é, 日本, 👩\u200d💻", "plain text, é, 日本, 👩\u200d💻"),
        ("red \x1b[31m", r"red \x1b[31m"),
        ("over\rwritten", r"over\rwritten"),
        ("c1 \x9b0m", r"c1 \x9b0m"),
        ("turned \u202e", r"turned \u202e"),
        ("hidden \U000e0041", r"hidden \U000e0041"),
        ("half \ud800", r"half \ud800"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_what_could_act_on_a_terminal_is_shown_instead(text: str, shown: str) -> None:
    assert paragraphs(text) == shown


def test_one_line_stays_one_line() -> None:
    assert one_line("a\nb\tc\u2028d") == r"a\nb\tc\u2028d"


@given(st.text(st.characters(categories=["Cc", "Cs", "L", "Zl", "Zp"])))
def test_no_control_character_survives_in_a_line(text: str) -> None:
    shown = one_line(text)

    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert len(shown.splitlines()) <= 1
