"""What is wrong with a configuration, and what is merely odd about it, as values.

A `Problem` names the file, the path in the document, what is wrong and what would be right. A `Notice`
is no error: a key that nobody knows is ignored, so that newer files load, and only `check` speaks of it.
Neither ever repeats the value of a header or of an environment variable.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from supervisor.core.document import is_list, is_object, kind_of

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[\w$-]+")
_SHOWN_LENGTH = 40
_NOWHERE = object()
_NOTHING_RENAMED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must be mended before what it speaks of can be used."""

    file: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None

    @override
    def __str__(self) -> str:
        return _one_line(self.file, self.path, self.message, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that is ignored, and perhaps was not meant to be."""

    file: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None

    @override
    def __str__(self) -> str:
        return _one_line(self.file, self.path, self.message, self.line, self.column)


def _one_line(file: str, path: str, message: str, line: int | None, column: int | None) -> str:
    place = ":".join(str(part) for part in (file, line, column) if part is not None)
    return ": ".join(part for part in (place, path, message) if part)


def dotted(path: Path) -> str:
    """The path as people write it: `mcpServers.files.args[2]`."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f"[{json.dumps(step)}]"


def listed(words: Sequence[str], *, joint: str) -> str:
    """`a, b or c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {joint} {words[-1]}"


def from_validation(
    error: ValidationError,
    document: Any,
    *,
    file: str,
    path: Path,
    renamed: Mapping[str, str] = _NOTHING_RENAMED,
) -> tuple[Problem, ...]:
    """The problems of one validated part of a file.

    Args:
        error: What pydantic found.
        document: The part as it was validated.
        file: The file it came from.
        path: Where the part stands in the file.
        renamed: Keys that the file spells otherwise, so that a path names what is in the file.
    """
    return tuple(_problem(details, document, file, path, renamed) for details in error.errors())


def _problem(
    details: ErrorDetails, document: Any, file: str, path: Path, renamed: Mapping[str, str]
) -> Problem:
    steps = _existing(details["loc"], document)
    if details["type"] == "missing":
        steps = (*steps, details["loc"][-1])
    if steps and isinstance(steps[0], str):
        steps = (renamed.get(steps[0], steps[0]), *steps[1:])
    return Problem(file, dotted((*path, *steps)), _sentence(details))


def _existing(location: Path, document: Any) -> Path:
    """The steps that lead somewhere in the document; pydantic also names unions and keys in between."""
    steps: list[str | int] = []
    here: object = document
    for step in location:
        below = _below(here, step)
        if below is not _NOWHERE:
            here = below
            steps.append(step)
    return tuple(steps)


def _below(value: object, step: str | int) -> object:
    if isinstance(step, str):
        return value.get(step, _NOWHERE) if is_object(value) else _NOWHERE
    return value[step] if is_list(value) else _NOWHERE


_KINDS = {
    "string_type": "a string",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
_LIMITS = {
    "greater_than": "greater than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
}


def _sentence(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be {context['expected'].replace(chr(39), chr(34))}, not {_shown(details['input'])}"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, not {kind_of(details['input'])}"
    if kind in _LIMITS:
        limit = next(iter(context.values()))
        return f"must be {_LIMITS[kind]} {limit:g}"
    return details["msg"].replace("String should", "must").replace("Input should", "must")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}…")
    return kind_of(value)


def unknown_keys(
    document: Mapping[str, Any], model: type[BaseModel], *, file: str, path: Path
) -> Iterator[Notice]:
    """A notice for every key, here and in nested objects, that the model does not know."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, value in document.items():
        if key not in fields:
            yield unknown_key(key, fields, file=file, path=path)
        elif is_object(value):
            for nested in _models(fields[key].annotation):
                yield from unknown_keys(value, nested, file=file, path=(*path, key))


def unknown_key(key: str, known: Iterable[str], *, file: str, path: Path) -> Notice:
    """A notice that names the nearest known key."""
    near = difflib.get_close_matches(key, known, n=1)
    question = f"; did you mean {near[0]}?" if near else ""
    return Notice(file, dotted((*path, key)), f"is not a known key and is ignored{question}")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation such as `Settings | False`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
