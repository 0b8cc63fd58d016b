"""Patterns on names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.globs import allows, matches

NAMES = st.text(alphabet="ab.[?", max_size=12)
PATTERNS = st.text(alphabet="ab.[?*", max_size=8)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("read", "read", True),
        ("read", "reads", False),
        ("", "", True),
        ("*", "", True),
        ("*", "anything", True),
        ("read_*", "read_file", True),
        ("read_*", "unread_file", False),
        ("*_file", "read_file", True),
        ("*_file", "read_files", False),
        ("r*_*e", "read_file", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("ab*ba", "aba", False),
        ("**", "x", True),
        ("a?c", "abc", False),
        ("[ab]", "a", False),
    ],
)
def test_a_star_stands_for_any_run_of_characters_and_nothing_else_is_special(
    pattern: str, name: str, expected: bool
) -> None:
    assert matches(pattern, name) is expected


@given(PATTERNS, NAMES)
def test_a_match_is_what_a_regular_expression_with_dot_star_would_say(pattern: str, name: str) -> None:
    expression = ".*".join(re.escape(piece) for piece in pattern.split("*"))

    assert matches(pattern, name) is (re.fullmatch(expression, name) is not None)


def test_a_pattern_made_to_blow_up_a_backtracking_matcher_is_answered() -> None:
    assert not matches("*" + "a*" * 2_000 + "b*", "a" * 20_000)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), False),
        (("*",), True),
        (("write_*",), False),
        (("*", "!read_*"), False),
        (("*", "!read_*", "read_file"), True),
        (("!read_*", "*"), True),
        (("!write_*",), False),
    ],
)
def test_the_last_pattern_that_matches_decides_and_no_match_means_no(
    patterns: tuple[str, ...], expected: bool
) -> None:
    assert allows(patterns, "read_file") is expected
