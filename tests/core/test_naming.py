"""Public names: mended so that every provider accepts them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.naming import beginning, public_name

TEXTS = st.text(max_size=90)
TOOLS = st.text(min_size=1, max_size=90)


@pytest.mark.parametrize(
    ("prefix", "separator", "tool", "expected"),
    [
        ("files", "_", "read", "files_read"),
        ("files", "__", "read", "files__read"),
        ("", "_", "read", "read"),
        ("my server", ".", "read/all", "my_server_read_all"),
        ("naïve", "_", "größe", "na_ve_gr__e"),
        ("a", "_", "b" * 62, "a_" + "b" * 62),
    ],
)
def test_a_name_is_prefix_separator_and_tool_with_what_providers_reject_mended(
    prefix: str, separator: str, tool: str, expected: str
) -> None:
    assert public_name(prefix, separator, tool) == expected


def test_a_name_that_is_too_long_is_cut_and_ends_in_a_fingerprint_that_never_changes() -> None:
    assert public_name("server", "_", "t" * 80) == "server_" + "t" * 48 + "_eeefc0d6"


def test_long_names_that_only_mending_made_alike_stay_apart() -> None:
    assert public_name("s", "_", "a.b" * 30) != public_name("s", "_", "a/b" * 30)


@given(TEXTS, TEXTS, TOOLS)
def test_every_name_is_one_that_providers_accept(prefix: str, separator: str, tool: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", public_name(prefix, separator, tool))


@given(TEXTS, TEXTS, TOOLS)
def test_every_name_begins_as_its_prefix_says(prefix: str, separator: str, tool: str) -> None:
    assert public_name(prefix, separator, tool).startswith(beginning(prefix, separator))


@given(st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z"))
def test_a_name_that_needs_no_mending_is_left_alone(name: str) -> None:
    assert public_name("", "_", name) == name


def test_a_lone_surrogate_in_a_long_name_is_mended_too() -> None:
    assert len(public_name("s", "_", "\ud800" * 80)) == 64
