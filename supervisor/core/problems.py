"""What is wrong with a configuration, and what is merely odd about it, as values.

A `Problem` names the file, the path in the document, what is wrong and what would be right. A `Notice`
is no error: a key that nobody knows is ignored, so that newer files load, and only `check` speaks of it.
Neither ever repeats the value of a header or of an environment variable.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from msgspec import Struct, structs
from typing_extensions import override

from supervisor.core.document import is_object

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[\w$-]+")
_NOTHING_RENAMED: Mapping[str, str] = MappingProxyType({})


class Fault(Struct, frozen=True):
    """One thing that is wrong with a value: where in it, and what would be right."""

    path: Path
    message: str


class Invalid(ValueError):
    """Everything that is wrong with a value."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{dotted(fault.path)}: {fault.message}" for fault in self.faults))


class Problem(Struct, frozen=True):
    """Something that must be mended before what it speaks of can be used."""

    file: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None

    @override
    def __str__(self) -> str:
        return _one_line(self.file, self.path, self.message, self.line, self.column)


class Notice(Struct, frozen=True):
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
    error: Invalid, *, file: str, path: Path, renamed: Mapping[str, str] = _NOTHING_RENAMED
) -> tuple[Problem, ...]:
    """The problems of one part of a file.

    Args:
        error: What is wrong with the part.
        file: The file it came from.
        path: Where the part stands in the file.
        renamed: Keys that the file spells otherwise, so that a path names what is in the file.
    """
    return tuple(
        Problem(file, dotted((*path, *_as_spelled(fault.path, renamed))), fault.message)
        for fault in error.faults
    )


def _as_spelled(path: Path, renamed: Mapping[str, str]) -> Path:
    match path:
        case (str(first), *rest):
            return (renamed.get(first, first), *rest)
        case _:
            return path


def unknown_keys(
    document: Mapping[str, Any], model: type[Struct], *, file: str, path: Path
) -> Iterator[Notice]:
    """A notice for every key, here and in nested objects, that the model does not know."""
    fields = _fields(model)
    for key, value in document.items():
        if key not in fields:
            yield unknown_key(key, fields, file=file, path=path)
        elif is_object(value):
            for nested in _models(fields[key].type):
                yield from unknown_keys(value, nested, file=file, path=(*path, key))


@cache
def _fields(model: type[Struct]) -> Mapping[str, structs.FieldInfo]:
    """The fields of a model by their names in a file; looked up once, as that evaluates its annotations."""
    return {field.encode_name: field for field in structs.fields(model)}


def unknown_key(key: str, known: Iterable[str], *, file: str, path: Path) -> Notice:
    """A notice that names the nearest known key."""
    from difflib import get_close_matches  # a daemon whose keys are all known starts without it

    near = get_close_matches(key, known, n=1)
    question = f"; did you mean {near[0]}?" if near else ""
    return Notice(file, dotted((*path, key)), f"is not a known key and is ignored{question}")


def _models(annotation: Any) -> Iterator[type[Struct]]:
    """The models in an annotation such as `Settings | False`."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
