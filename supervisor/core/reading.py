"""From a plain value to a model, or to everything that is wrong with it at once.

A model is a class whose fields are the keys of an object in a file. Its annotations say what a value may be,
with bounds (`msgspec.Meta`) and rules of our own (`Check`). They are walked here and not by msgspec, which
stops at the first fault and has its own words for it. Knows no key and no file.
"""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeGuard, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct, structs
from typing_extensions import override

from supervisor.core.document import is_object, kind_of
from supervisor.core.problems import Fault, Invalid, Path, listed

_SHOWN_LENGTH = 40
_WRITTEN = "_written"

_KINDS: Mapping[Any, tuple[frozenset[type], str]] = {
    str: (frozenset({str}), "a string"),
    bool: (frozenset({bool}), "true or false"),
    int: (frozenset({int}), "a whole number"),
    float: (frozenset({int, float}), "a number"),
    NoneType: (frozenset({NoneType}), "null"),
}


class Check(Struct, frozen=True):
    """A rule in an annotation: called with a value of the right kind, it raises what would be right."""

    rule: Callable[[Any], None]


class Model(Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """An object with known keys: camelCase in files, snake_case in code. Code that makes one is trusted."""

    concealed: ClassVar[frozenset[str]] = frozenset()
    """Fields that hold secrets."""
    short: ClassVar[str | None] = None
    """The key that a bare string stands for."""
    shape: ClassVar[str] = "an object"
    """What a value of this model has to be, in words."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The model of an object in a file; keys that it does not know are ignored.

        Raises:
            Invalid: Something is wrong; `problems.from_validation` puts it in words.
        """
        faults: list[Fault] = []
        model = _model(cls, dict(document), (), faults)
        if model is None:
            raise Invalid(faults)
        return model

    @property
    def written_fields(self) -> frozenset[str]:
        """The fields that somebody has set; two models that differ only in this are equal."""
        written: frozenset[str] = self.__dict__.get(_WRITTEN, frozenset())
        return written

    def written(self) -> dict[str, Any]:
        """The keys that the file sets, in its spelling."""
        keys = spelling(type(self))
        values = {keys[name]: getattr(self, name) for name in keys if name in self.written_fields}
        return {key: each.written() if isinstance(each, Model) else each for key, each in values.items()}

    def but(self, **changes: Any) -> Self:
        """The same with other values in some fields, which then count as written."""
        return _marked(structs.replace(self, **changes), self.written_fields | changes.keys())

    def settled(self) -> Self:
        """The model once all its keys are right, each for itself.

        Raises:
            ValueError: They contradict each other.
        """
        return self

    @override
    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.concealed)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def spelling(model: type[Model]) -> dict[str, str]:
    """The key in a file for each field."""
    return dict(zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True))


_SomeModel = TypeVar("_SomeModel", bound=Model)


@functools.cache
def _fields(model: type[Model]) -> tuple[structs.FieldInfo, ...]:
    return structs.fields(model)


def _marked(model: _SomeModel, written: frozenset[str]) -> _SomeModel:
    structs.force_setattr(model, _WRITTEN, written)
    return model


def _model(model: type[_SomeModel], value: object, place: Path, faults: list[Fault]) -> _SomeModel | None:
    short = model.short if isinstance(value, str) else None
    document = value if short is None else {short: value}
    if not is_object(document):
        faults.append(Fault(place, f"must be {model.shape}, not {kind_of(value)}"))
        return None
    before = len(faults)
    values: dict[str, Any] = {}
    for field in _fields(model):
        key = field.encode_name
        there = place if short is not None else (*place, key)
        if key in document:
            values[field.name] = _value(field.type, document[key], there, faults)
        elif field.required:
            faults.append(Fault(there, "is missing"))
    return _settled(model, values, place, faults) if len(faults) == before else None


def _settled(
    model: type[_SomeModel], values: Mapping[str, Any], place: Path, faults: list[Fault]
) -> _SomeModel | None:
    try:
        return _marked(model(**values), frozenset(values)).settled()
    except ValueError as error:
        faults.append(Fault(place, str(error)))
        return None


def _value(kind: Any, value: object, place: Path, faults: list[Fault]) -> Any:
    """The value as a thing of this kind; after a fault, None."""
    origin = get_origin(kind)
    if origin in {Union, UnionType}:
        return _value(_meant(get_args(kind), value), value, place, faults)
    if origin is tuple:
        return _items(get_args(kind)[0], value, place, faults)
    if origin is Mapping:
        return _members(get_args(kind), value, place, faults)
    if isinstance(kind, type) and issubclass(kind, Model):
        return _model(kind, value, place, faults)
    try:
        return _scalar(kind, value)
    except ValueError as error:
        faults.append(Fault(place, str(error)))
        return None


def _meant(kinds: tuple[Any, ...], value: object) -> Any:
    """Which of several kinds a value wants to be: null or a boolean where that is one, else the first."""
    return next((kind for kind in kinds[1:] if type(value) is _parted(kind)[0]), kinds[0])


def _items(kind: Any, value: object, place: Path, faults: list[Fault]) -> tuple[Any, ...] | None:
    if not _is_sequence(value):
        faults.append(Fault(place, f"must be a list, not {kind_of(value)}"))
        return None
    return tuple(_value(kind, each, (*place, index), faults) for index, each in enumerate(value))


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list in a document, or in what was read before."""
    return isinstance(value, list | tuple)


def _members(
    kinds: tuple[Any, ...], value: object, place: Path, faults: list[Fault]
) -> dict[str, Any] | None:
    if not is_object(value):
        faults.append(Fault(place, f"must be an object, not {kind_of(value)}"))
        return None
    of_names, of_values = kinds
    return {
        _value(of_names, name, (*place, name), faults): _value(of_values, each, (*place, name), faults)
        for name, each in value.items()
    }


def _scalar(kind: Any, value: Any) -> Any:
    bare, rules = _parted(kind)
    if get_origin(bare) is Literal:
        _check_choice(get_args(bare), value)
        return value
    types, words = _KINDS[bare]
    if type(value) not in types:
        raise ValueError(f"must be {words}, not {kind_of(value)}")
    for rule in rules:
        if isinstance(rule, Meta):
            _check_bounds(rule, value)
        else:
            rule.rule(value)
    # After the bounds: a whole number of any size can be compared, and not every one can be converted.
    return float(value) if bare is float else value


def _parted(kind: Any) -> tuple[Any, tuple[Meta | Check, ...]]:
    """A kind without what is annotated, and that."""
    if get_origin(kind) is not Annotated:
        return kind, ()
    bare, *rules = get_args(kind)
    return bare, tuple(rules)


def _check_choice(choices: tuple[str, ...], value: object) -> None:
    if value not in choices:
        expected = listed([json.dumps(choice) for choice in choices], joint="or")
        raise ValueError(f"must be {expected}, not {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}…")
    return kind_of(value)


def _check_bounds(bounds: Meta, value: Any) -> None:
    """Each is asked for what is right, which NaN never is."""
    if bounds.gt is not None and not value > bounds.gt:
        raise ValueError(f"must be greater than {_number(bounds.gt)}")
    if bounds.ge is not None and not value >= bounds.ge:
        raise ValueError(f"must be at least {_number(bounds.ge)}")
    if bounds.le is not None and not value <= bounds.le:
        raise ValueError(f"must be at most {_number(bounds.le)}")
    if bounds.max_length is not None and len(value) > bounds.max_length:
        raise ValueError(f"must have at most {bounds.max_length} characters")
    if bounds.pattern is not None and not re.fullmatch(bounds.pattern, value):
        raise ValueError(f"must match the pattern {bounds.pattern}")


def _number(limit: float) -> str:
    """A limit as people write it: 3600, not 3600.0 or 3.6e+03."""
    return str(int(limit)) if limit == int(limit) else str(limit)
