"""From words to arguments: every type that a schema can ask for, and every way to say it."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.arguments import build, needs_schema, read_words
from supervisor.cli.failures import Usage


def arguments(*words: str, schema: dict[str, Any] | None = None, stdin: str = "") -> dict[str, Any]:
    return build(read_words(words, stdin=io.StringIO(stdin)), schema or {})


@pytest.mark.parametrize(
    ("asked", "text", "value"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "3.0", 3.0),
        ({"type": "integer"}, "3.5", "3.5"),
        ({"type": "integer"}, "true", "true"),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "array"}, "[1]", [1]),
        ({"type": "array"}, "a,b", "a,b"),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "string"}, "3", "3"),
        ({"type": "string"}, '"quoted"', '"quoted"'),
        ({"type": ["string", "null"]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
        ({"oneOf": [{"type": "boolean"}]}, "false", False),
        ({"allOf": [{"$ref": "#/$defs/Level"}]}, "2", 2),
        ({"$ref": "#/$defs/Level"}, "2", 2),
        ({"$ref": "#/$defs/Loop"}, "2", "2"),
        ({"$ref": "https://elsewhere/schema"}, "2", "2"),
        ({"$ref": "#/$defs/a~1b"}, "2", 2),
        ({"const": 2}, "2", 2),
        ({}, "3", "3"),
        (True, "3", "3"),
        ({"type": "array"}, "[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_has_the_type_that_the_schema_asks_for(asked: Any, text: str, value: Any) -> None:
    definitions = {"Level": {"enum": [1, 2]}, "Loop": {"$ref": "#/$defs/Loop"}, "a/b": {"type": "number"}}
    schema = {"properties": {"key": asked}, "$defs": definitions}

    built = arguments(f"key={text}", schema=schema)["key"]

    assert (type(built), built) == (type(value), value)


def test_a_key_that_the_schema_does_not_know_is_text() -> None:
    assert arguments("key=3", schema={"properties": "odd"}) == {"key": "3"}


@given(st.text(), st.sampled_from(["string", "integer", "array", "null"]))
def test_text_is_never_lost(text: str, kind: str) -> None:
    [value] = arguments(f"key={text}", schema={"properties": {"key": {"type": kind}}}).values()

    assert value == text or value == json.loads(text)


def test_a_value_may_hold_equal_signs_and_colons() -> None:
    assert arguments("url=http://host/?a=b:=c", "empty=") == {"url": "http://host/?a=b:=c", "empty": ""}


def test_an_object_is_taken_as_it_is() -> None:
    assert arguments(' {"a": [1, null]}') == {"a": [1, None]}


def test_an_object_is_read_from_stdin() -> None:
    assert arguments("-", stdin='{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("words", "needed"), [(["a=1"], True), (["a:=1"], False), (['{"a": 1}'], False), ([], False)]
)
def test_only_plain_pairs_need_the_schema(words: list[str], needed: bool) -> None:
    assert needs_schema(read_words(words, stdin=io.StringIO())) is needed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["word"], "cannot understand the argument 'word'"),
        (["=value"], "cannot understand the argument"),
        ([":=1"], "cannot understand the argument"),
        (["a=1", "a=2"], "cannot take 'a' twice"),
        (["a:=oops"], "cannot read 'a' as JSON"),
        (["a:=NaN"], "NaN is no JSON"),
        (["a:=" + "[" * 100_000], "nested too deeply"),
        (["{oops"], "cannot read the arguments as JSON"),
        (["-"], "but no object"),
    ],
)
def test_what_cannot_be_understood_is_said(words: list[str], sentence: str) -> None:
    with pytest.raises(Usage, match=r"^cannot") as caught:
        arguments(*words, stdin="[1]")

    assert sentence in str(caught.value)
