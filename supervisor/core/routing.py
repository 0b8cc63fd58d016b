"""The headers by which a modern request tells proxies what is in it.

Over HTTP a request of the modern era repeats its method, the name of what it asks for, and the arguments
that a tool's schema marks with `x-mcp-header`. This module reads the marks and writes the values. A schema
whose marks are wrong spoils its tool: a client that guessed would route a call by what its body does not say.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

Path = tuple[str, ...]
"""The property names that lead from the root of a schema to a marked property."""

METHOD = "mcp-method"
NAME = "mcp-name"

MARK = "x-mcp-header"
_PREFIX = "mcp-param-"
_PRIMITIVES = ("string", "integer", "boolean")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")

# Where a schema holds further schemas, by the shape of the value. A mark below any of them says nothing of
# one certain argument, so it is wrong there. What is no schema (`default`, `enum`, …) is not entered.
_SINGLE = (
    *("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("patternProperties", "dependentSchemas", "$defs", "definitions")


class BadMark(ValueError):
    """A mark stands where it cannot, or says what it cannot."""


def header_value(text: str) -> str:
    """The text as a header can carry it; what would not survive the way is wrapped in base64."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def marks(schema: object) -> dict[Path, str]:
    """The marked properties of a tool's input schema, and the header that each goes into.

    Raises:
        BadMark: a mark is wrong, so the tool must not be used.
    """
    found: dict[Path, str] = {}
    for path, position in _positions(schema):
        if MARK in position:
            header = _checked(path, position)
            if header in found.values():
                raise BadMark(f"{MARK} {position[MARK]!r} stands on two properties")
            found[cast("Path", path)] = header
    return found


def param_headers(marked: Mapping[Path, str], arguments: object) -> dict[str, str]:
    """The headers for the arguments of one call; an argument that is absent or null has none."""
    values = ((header, _rendered(_value(arguments, path))) for path, header in marked.items())
    return {header: header_value(text) for header, text in values if text is not None}


def _checked(path: Path | None, position: Mapping[str, Any]) -> str:
    """The name of the header of a marked position."""
    mark, kind = position[MARK], position.get("type")
    if not path:
        raise BadMark(f"{MARK} stands where no single argument is meant")
    where = ".".join(path)
    if not isinstance(mark, str) or not _TOKEN.fullmatch(mark):
        raise BadMark(f"{MARK} of {where} is not the name of a header")
    if kind not in _PRIMITIVES:
        raise BadMark(f"{MARK} of {where} stands on a property that is not a string, an integer or a boolean")
    return _PREFIX + mark.lower()


def _positions(root: object) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every schema within a schema, with its path while that consists of property names alone."""
    waiting: list[tuple[Path | None, object]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict):
            schema = cast("dict[str, Any]", node)
            yield path, schema
            for key, value in schema.items():
                waiting += _below(path, key, value)


def _below(path: Path | None, key: str, value: object) -> Iterator[tuple[Path | None, object]]:
    if key == "properties" and isinstance(value, dict):
        for name, schema in cast("dict[str, object]", value).items():
            yield (None if path is None else (*path, name)), schema
    elif key in _SINGLE:
        yield None, value
    elif key in _LISTS and isinstance(value, list):
        yield from ((None, schema) for schema in cast("list[object]", value))
    elif key in _NAMED and isinstance(value, dict):
        yield from ((None, schema) for schema in cast("dict[str, object]", value).values())


def _value(arguments: object, path: Path) -> object:
    for name in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, object]", arguments).get(name)
    return arguments


def _rendered(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
