"""From words on the command line to a tool's arguments.

`{"key": 1}` is the whole object, `key:=1` is JSON, `key=1` follows the type that the tool's schema asks
for. The schema, the words and the input stream are arguments.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, cast

from supervisor.cli.failures import Usage
from supervisor.cli.values import array, mapping

Schema = Mapping[str, Any]

DEEPEST = 8
"""How far references and alternatives of a schema are followed."""


@dataclass(frozen=True, slots=True)
class Pair:
    key: str
    text: str
    forced: bool
    """Whether the user wrote `:=`, so the text is JSON whatever the schema says."""


Given = dict[str, Any] | tuple[Pair, ...]
"""What the user gave: the arguments themselves, or pairs that may need the schema."""


def read_words(words: Sequence[str], *, stdin: TextIO) -> Given:
    """The words understood as far as they can be without the schema; `-` reads an object from `stdin`.

    Raises:
        Usage: a word is no pair, a key comes twice, or the JSON is not an object.
    """
    match words:
        case ["-"]:
            return _parse_object(stdin.read())
        case [str(word)] if word.lstrip().startswith("{"):
            return _parse_object(word)
        case _:
            return _parse_pairs(words)


def needs_schema(given: Given) -> bool:
    """Whether some value's type is still open."""
    return isinstance(given, tuple) and not all(pair.forced for pair in given)


def build(given: Given, schema: Schema) -> dict[str, Any]:
    """The arguments with each value in the type that the schema asks for, else as a string.

    Raises:
        Usage: a value given with `:=` is not JSON.
    """
    if isinstance(given, dict):
        return given
    return {pair.key: _forced(pair) if pair.forced else _guided(pair, schema) for pair in given}


def _parse_object(text: str) -> dict[str, Any]:
    try:
        parsed = _parse_json(text)
    except ValueError as error:
        raise Usage(
            f"cannot read the arguments as JSON: {error}; write an object such as '{{\"key\": 1}}'"
        ) from None
    if not isinstance(parsed, dict):
        raise Usage("cannot use these arguments: they are JSON, but no object; write '{\"key\": 1}' or key=1")
    return cast("dict[str, Any]", parsed)


def _parse_pairs(words: Sequence[str]) -> tuple[Pair, ...]:
    pairs = tuple(_pair(word) for word in words)
    keys = [pair.key for pair in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise Usage(f"cannot take {key!r} twice; give a list as {key}:='[1, 2]'")
    return pairs


def _pair(word: str) -> Pair:
    key, equals, text = word.partition("=")
    forced = key.endswith(":")
    key = key.removesuffix(":")
    if not equals or not key:
        raise Usage(f"cannot understand the argument {word!r}; write key=value, key:=JSON or one JSON object")
    return Pair(key, text, forced)


def _forced(pair: Pair) -> Any:
    try:
        return _parse_json(pair.text)
    except ValueError as error:
        raise Usage(f"cannot read {pair.key!r} as JSON: {error}; use {pair.key}=… for plain text") from None


def _guided(pair: Pair, schema: Schema) -> Any:
    properties = mapping(schema.get("properties"))
    asked = set(_types(mapping(properties.get(pair.key)), schema, DEEPEST))
    try:
        parsed = _parse_json(pair.text)
    except ValueError:
        return pair.text
    # A text that is asked for keeps its quotes: only what is no string is read as JSON.
    return parsed if asked & _types_of(parsed) - {"string"} else pair.text


def _types(schema: Schema, root: Schema, depth: int) -> Iterator[str]:
    """All types that the schema lets a value have."""
    if depth == 0:
        return
    named = schema.get("type")
    yield from [named] if isinstance(named, str) else _strings(named)
    values = [schema["const"]] if "const" in schema else array(schema.get("enum"))
    for value in values:
        yield from _types_of(value)
    for alternative in (
        *array(schema.get("anyOf")),
        *array(schema.get("oneOf")),
        *array(schema.get("allOf")),
    ):
        yield from _types(mapping(alternative), root, depth - 1)
    yield from _types(_referenced(schema.get("$ref"), root), root, depth - 1)


def _types_of(value: Any) -> set[str]:
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"integer", "number"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case _:
            return {"object"}


def _referenced(reference: Any, root: Schema) -> Schema:
    """The part of the schema that `#/a/b` names; empty when it names none."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return {}
    part: Schema = root
    for step in reference[2:].split("/"):
        part = mapping(part.get(step.replace("~1", "/").replace("~0", "~")))
    return part


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _strings(value: object) -> list[str]:
    return [item for item in array(value) if isinstance(item, str)]
