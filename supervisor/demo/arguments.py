"""What is wrong with the arguments of a call, measured by the tool's own input schema.

Understands the part of JSON Schema that the demo tools use, and no more: `type`, `enum`, `minimum`,
`maximum`, `maxLength`, `required`, on an object that allows no other keys. It never fills in defaults.
"""

from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}


def problem(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """The first thing wrong, as a sentence, or None."""
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    for name in schema["required"]:
        if name not in arguments:
            return f"cannot do without {name!r}: {properties[name]['description']}"
    for name, value in arguments.items():
        if name not in properties:
            return f"cannot use argument {name!r}; {_known(properties)}"
        if fault := _fault(properties[name], value):
            return f"cannot use {name!r}: {fault}"
    return None


def _known(properties: Mapping[str, object]) -> str:
    return f"this tool takes {', '.join(properties)}" if properties else "this tool takes no arguments"


def _fault(schema: Mapping[str, Any], value: object) -> str | None:
    kind = schema.get("type")
    if kind and (isinstance(value, bool) or not isinstance(value, _TYPES[kind])):
        return f"it must be {'an' if kind == 'integer' else 'a'} {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"it must be one of {', '.join(schema['enum'])}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return f"it is longer than {schema['maxLength']} characters"
    if isinstance(value, int | float) and not _within(schema, value):
        return f"it must be between {schema['minimum']} and {schema['maximum']}"
    return None


def _within(schema: Mapping[str, Any], value: float) -> bool:
    return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
