"""Environment files: the forms that dotenv files take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.dotenv import DotenvError, parse_dotenv


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("", {}),
        ("\n  \n# comment\n", {}),
        ("A=1\nB=2", {"A": "1", "B": "2"}),
        ("export A = spaced out  ", {"A": "spaced out"}),
        ("A=", {"A": ""}),
        ("A=x # comment", {"A": "x"}),
        ("A=x#no comment", {"A": "x#no comment"}),
        ("A= # comment", {"A": ""}),
        ("A='$x \\n #' # comment", {"A": "$x \\n #"}),
        ('A="a\\nb \\"c\\" \\\\ \\$ \\q"', {"A": 'a\nb "c" \\ $ \\q'}),
        ('KEY="-----BEGIN\nabc\n-----END"\nB=2', {"KEY": "-----BEGIN\nabc\n-----END", "B": "2"}),
        ("A=1\r\nB='2'\r\n", {"A": "1", "B": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A=it's", {"A": "it's"}),
        ("A=${B}", {"A": "${B}"}),
    ],
)
def test_it_reads(text: str, variables: dict[str, str]) -> None:
    assert parse_dotenv(text.encode()) == variables


@pytest.mark.parametrize(
    ("text", "line"),
    [("A", 1), ("A=1\n=2", 2), ("A=1\n\n'x'", 3), ("A='open", 1), ('A="x" y', 1), ("1A=x", 1), ("A=a\0b", 1)],
)
def test_a_line_that_is_none_is_named_by_number_only(text: str, line: int) -> None:
    with pytest.raises(DotenvError) as caught:
        parse_dotenv(text.encode())

    assert str(caught.value) == f"cannot read the environment file: line {line} is not NAME=value"


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(DotenvError, match="not UTF-8"):
        parse_dotenv(b"A=\xff")


@given(st.text(st.characters(exclude_characters="\0'", exclude_categories=["Cs"])))
def test_a_value_in_single_quotes_is_literal(value: str) -> None:
    assert parse_dotenv(f"A='{value}'\n".encode()) == {"A": value.replace("\r\n", "\n")}
