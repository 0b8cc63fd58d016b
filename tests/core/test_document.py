"""The document: what is accepted beyond JSON, and what is refused with its place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.document import MAX_DEPTH, DocumentError, kind_of, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"a": 1} // end', {"a": 1}, id="line-comment"),
        pytest.param('/* head\n */ {"a": /* mid */ 1}', {"a": 1}, id="block-comment"),
        pytest.param('{"a": [1, 2,], }', {"a": [1, 2]}, id="trailing-commas"),
        pytest.param("[1, // one\n /* none */ ]", [1], id="comment-after-trailing-comma"),
        pytest.param('{"a": "// no, /* comment */ ,]"}', {"a": "// no, /* comment */ ,]"}, id="in-a-string"),
        pytest.param('"\\"//\\\\"', '"//\\', id="escaped-quotes"),
        pytest.param('\ufeff{"a": null}', {"a": None}, id="byte-order-mark"),
        pytest.param('["\\ud83d\\ude00"]', ["😀"], id="surrogate-pair"),
        pytest.param('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}], id="same-key-elsewhere"),
        pytest.param('{"a": "a", "b": ["a", "a"]}', {"a": "a", "b": ["a", "a"]}, id="same-value"),
        pytest.param("[/**/]", [], id="empty-comment"),
        pytest.param("[1]\r\n// end\r\n", [1], id="windows-lines"),
        pytest.param(f"[{10**30}, 1.5e3]", [10**30, 1500.0], id="numbers"),
    ],
)
def test_it_accepts(text: str, value: Any) -> None:
    assert parse(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        pytest.param("", (1, 1), "empty", id="empty"),
        pytest.param("// only a comment\n", (1, 1), "empty", id="only-a-comment"),
        pytest.param('{"a" 1}', (1, 6), "expecting ':' delimiter", id="syntax"),
        pytest.param('{\n  /* äö */ "a" 1}', (2, 16), "expecting ':' delimiter", id="place-after-comment"),
        pytest.param("[1,,]", (1, 4), "expecting value", id="two-commas"),
        pytest.param("[,]", (1, 2), "expecting value", id="comma-alone"),
        pytest.param('{"a":,}', (1, 6), "expecting value", id="comma-for-a-value"),
        pytest.param(",", (1, 1), "expecting value", id="comma-only"),
        pytest.param("]", (1, 1), "expecting value", id="unopened"),
        pytest.param("[1] 2", (1, 5), "extra data", id="extra"),
        pytest.param("[1 / 2]", (1, 4), "expecting ',' delimiter", id="slash"),
        pytest.param('["a\nb"]', (1, 2), "never closed", id="open-string"),
        pytest.param('["a\tb"]', (1, 4), "invalid control character", id="control-character"),
        pytest.param('["\\x"]', (1, 3), "invalid \\\\escape", id="bad-escape"),
        pytest.param('{\n "a": 1,\n "\\u0061": 2}', (3, 2), "twice in one object", id="twice"),
        pytest.param('{"x": {"a": 1, "a": 1}}', (1, 16), "twice in one object", id="twice-inside"),
        pytest.param("[NaN]", (1, 2), "NaN is not", id="nan"),
        pytest.param("[1, -Infinity]", (1, 5), "-Infinity is not", id="infinity"),
        pytest.param(f"[{'x' * 5000}]", (1, 2), "expecting value", id="long-word"),
        pytest.param("[1x]", (1, 3), "expecting ',' delimiter", id="no-number"),
        pytest.param("[1e999]", (1, 2), "too large", id="beyond-a-double"),
        pytest.param(f"[{'9' * 5000}]", (1, 2), "too large", id="five-thousand-digits"),
        pytest.param('["\\ud800"]', (1, 2), "surrogate", id="lone-surrogate"),
        pytest.param("[1] /* open", (1, 5), "never closed", id="open-comment"),
        pytest.param("[1] /*/", (1, 5), "never closed", id="half-closed-comment"),
        pytest.param("[" * (MAX_DEPTH + 1), (1, MAX_DEPTH + 1), "in one another", id="deep"),
    ],
)
def test_it_refuses_and_says_where(text: str, place: tuple[int, int], reason: str) -> None:
    with pytest.raises(DocumentError, match=f"(?s)^cannot .*(?:{reason})") as caught:
        parse(text.encode())

    assert (caught.value.line, caught.value.column) == place


def test_bytes_that_are_not_utf8_are_refused_with_their_place() -> None:
    with pytest.raises(DocumentError, match="not UTF-8") as caught:
        parse(b'{\n  "a": "\xff"}')

    assert (caught.value.line, caught.value.column) == (2, 9)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.booleans())
def test_every_json_document_means_what_it_means_to_json(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1)

    assert parse(text.encode()) == value


@given(JSON)
def test_trailing_commas_and_comments_change_nothing(value: Any) -> None:
    text = json.dumps([value, value], indent=1)

    assert parse(f"/* a, */ {text[:-2]}, // b]\n ]".encode()) == [value, value]


def place_of_error(content: bytes) -> tuple[int, int] | None:
    try:
        parse(content)
    except DocumentError as error:
        return error.line, error.column
    return None


@given(st.binary(max_size=60) | st.text(alphabet='{}[],:"\\/*\n a1', max_size=40).map(str.encode))
def test_any_bytes_give_a_value_or_an_error_at_a_place_in_them(content: bytes) -> None:
    place = place_of_error(content)

    assert place is None or (1 <= place[0] <= content.count(b"\n") + 1 and place[1] >= 1)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (1, "a number"),
        (1.5, "a number"),
        ("", "a string"),
        ([], "a list"),
        ((), "a list"),
        ({}, "an object"),
    ],
)
def test_a_value_is_called_what_json_calls_it(value: object, name: str) -> None:
    assert kind_of(value) == name
