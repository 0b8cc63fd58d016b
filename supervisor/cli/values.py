"""JSON whose shape nobody promised, read as the shape that was hoped for, else as an empty one."""

from collections.abc import Iterable, Mapping
from typing import Any, cast


def mapping(value: object) -> Mapping[str, Any]:
    """The object, or an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def array(value: object) -> list[Any]:
    """The array, or an empty one."""
    return list(cast("Iterable[Any]", value)) if isinstance(value, list) else []
