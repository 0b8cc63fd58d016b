"""JSON looked at as text says what a parser of it would say."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jsontext import is_deeper, key_problem

TWICE = "cannot accept an envelope in which a key stands twice"

_values = st.recursive(
    st.integers(-3, 30)
    | st.sampled_from(["", "id", '"id":', "[", "}}", "\\", '\\"', "\\u0069d"])
    | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", "{"]), inner),
    max_leaves=8,
)
_keys = st.sampled_from(["id", "method", "params", "jsonrpc", "x", "y,", "}"])


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inner), default=0)
    return 0


# Nesting.


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (b"", 0),
        (b"1", 0),
        (b"[[[", 3),
        (b"]]]", 0),
        (b"]]][[", 2),
        (b"[]", 1),
        (b"[[],[[]]]", 3),
        (b'{"a":[{}]}', 3),
        (b'["[[[{{{"]', 1),
        (b'["[","]"]', 1),
        (b'["\\"[[["]', 1),
        (b'["\\\\",[]]', 2),
        (b'["\\\\\\"[[",[]]', 2),
        (b'"[[[', 0),
        (b'["\\', 1),
        pytest.param(b"[" * 40 + b"]" * 40, 40, id="deep"),
        pytest.param(b"[%s]" % b",".join([b"[" * 40 + b"]" * 40] * 3), 41, id="deep and side by side"),
        pytest.param(b"[%s]" % b",".join([b"[]"] * 300), 2, id="wide"),
    ],
)
def test_depth_counts_brackets_outside_strings(text: bytes, levels: int) -> None:
    assert not is_deeper(text, levels)
    assert levels == 0 or is_deeper(text, levels - 1)


@given(_values, st.booleans())
def test_depth_is_that_of_the_value(value: Any, tight: bool) -> None:
    line = json.dumps(value, separators=(",", ":") if tight else None).encode()
    levels = depth(value)

    assert not is_deeper(line, levels)
    assert levels == 0 or is_deeper(line, levels - 1)


# Keys.


@given(st.lists(st.tuples(_keys, _values), min_size=1, max_size=6), st.sampled_from(["", " ", "\t\r "]))
def test_a_key_stands_twice_exactly_when_a_parser_sees_it_twice(
    members: list[tuple[str, Any]], space: str
) -> None:
    pairs = [f"{json.dumps(key)}{space}:{space}{json.dumps(value)}{space}" for key, value in members]
    line = f"{space}{{{space}{f',{space}'.join(pairs)}{space}}}".encode()
    ours = [key for key, _ in members if key in ("id", "method", "params", "jsonrpc")]

    assert key_problem(line) == (TWICE if len(ours) != len(set(ours)) else None)


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":12,"id":1}',
        b'{"id":1,"id":12}',
        b'{"params":[1],"params":[1]}',
        b'{"\\u0069d":1,"id":1}',
        b'{"x":[],"id":[],"id":null}',
        b'{"x":[[{"a":["]"]}],{}],"id":1,"id":1}',
    ],
)
def test_a_key_that_stands_twice_is_found(line: bytes) -> None:
    assert key_problem(line) == TWICE


def test_an_envelope_with_very_many_keys_is_not_read_to_its_end() -> None:
    line = b'{"id":{"id":1},%s}' % b",".join([b'"x":[{}]'] * 100_000)

    assert key_problem(line) == "cannot accept an envelope of more than 100 keys"


def test_as_many_keys_as_allowed_are_looked_at() -> None:
    assert key_problem(b'{%s,"id":"id"}' % b",".join([b'"x":[{}]'] * 99)) is None
