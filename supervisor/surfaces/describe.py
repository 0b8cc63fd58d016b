"""The control API described for programs: an OpenRPC document, made from the table of methods.

Schemas come from the models that read params and write results, their meanings from the docstrings of
classes and fields, error codes from `errors`. Nothing is written down twice, so nothing can disagree.
"""

import ast
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from supervisor import __version__, errors
from supervisor.surfaces.method import Description, Notification, OpenRpcDocument
from supervisor.surfaces.models import ErrorData, JsonObject

OPENRPC = "1.3.2"
_Model = msgspec.inspect.StructType | msgspec.inspect.DataclassType
_SCHEMAS = "#/components/schemas/"
_ERRORS = "#/components/errors/"
_HOW = (
    "Newline-delimited JSON-RPC 2.0 on a Unix socket; params are objects. Times are seconds since 1970, "
    "durations are seconds. x-notifications names what the daemon sends on its own, x-error-data the data "
    "of every error."
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A code that a request can end in."""

    name: str
    code: int
    meaning: str


_GENERAL = (
    Failure("ParseError", errors.PARSE_ERROR, "The line is not JSON, not UTF-8, or nested too deeply."),
    Failure("InvalidRequest", errors.INVALID_REQUEST, "The JSON is no JSON-RPC 2.0 request."),
    Failure("UnknownMethod", errors.METHOD_NOT_FOUND, "There is no such method."),
    Failure("InvalidParams", errors.INVALID_PARAMS, "The params do not fit; the message names the field."),
    Failure("InternalError", errors.INTERNAL_ERROR, "A bug in the daemon; its log says more."),
)
_OURS = {
    errors.UnknownServer: "No server of that name is configured.",
    errors.UnknownTool: "No server has, or had, such a tool.",
    errors.ServerUnavailable: "The server cannot answer now; nothing was sent to it.",
    errors.ServerDied: "The server ended before it answered; whether the tool ran is not known.",
    errors.TimedOut: "The time is over: the call was not sent in time, or not answered in time.",
    errors.Cancelled: "The client cancelled the call, or left; or the server it stops was started again.",
    errors.Busy: "Too many clients, calls, requests that wait or subscriptions, or a full queue; try later.",
    errors.RefusedByPolicy: "The tool may not be called: by policy, for this agent, or without approval.",
    errors.TooLarge: (
        "The request is longer than allowed, and the daemon hangs up after this; or it is over a mebibyte"
        " and holds more values or escapes than are read in one piece."
    ),
    errors.BadConfig: "The configuration cannot be used; everything stays as it was.",
}
FAILURES = (*_GENERAL, *(Failure(kind.__name__, kind.code, meaning) for kind, meaning in _OURS.items()))
"""Every code, those of JSON-RPC first."""


def document(
    descriptions: Mapping[str, Description], notifications: Mapping[str, Notification]
) -> OpenRpcDocument:
    """The description of these methods and notifications."""
    models = [
        *(each.params for each in descriptions.values()),
        *(each.result for each in descriptions.values() if each.result is not None),
        *(each.params for each in notifications.values()),
        ErrorData,
    ]
    schemas, components = schemas_of(models)
    described = zip(notifications.items(), schemas[-1 - len(notifications) : -1], strict=True)
    return OpenRpcDocument(
        openrpc=OPENRPC,
        info={"title": "MCP Supervisor control API", "version": __version__, "description": _HOW},
        methods=tuple(_method(name, each, components) for name, each in descriptions.items()),
        components={"schemas": components, "errors": {each.name: _error(each) for each in FAILURES}},
        notifications=tuple(
            {"name": name, "summary": each.summary, "schema": schema} for (name, each), schema in described
        ),
        error_data=schemas[-1],
    )


def schemas_of(models: Iterable[Any]) -> tuple[tuple[JsonObject, ...], dict[str, dict[str, Any]]]:
    """The schema of each model, and the named ones that they refer to, with what fields mean."""
    kinds = list(models)
    schemas, components = msgspec.json.schema_components(
        kinds,
        ref_template=f"{_SCHEMAS}{{name}}",
        schema_hook=_anything,
    )
    for model in _models_in(kinds):
        for name, meaning in meanings(model).items():
            components[model.__name__]["properties"][name]["description"] = meaning
    return schemas, components


def _anything(_type: type) -> dict[str, Any]:
    return {"description": "Any JSON value."}


def _models_in(types: Iterable[Any]) -> set[type]:
    """All classes that the types are made of."""
    found: set[type] = set()
    waiting = list(msgspec.inspect.multi_type_info(types))
    while waiting:
        each = waiting.pop()
        if isinstance(each, _Model):
            if each.cls in found:
                continue
            found.add(each.cls)
        waiting.extend(_parts(each))
    return found


def _parts(type_info: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    match type_info:
        case msgspec.inspect.StructType(fields=fields) | msgspec.inspect.DataclassType(fields=fields):
            yield from (field.type for field in fields)
        case msgspec.inspect.UnionType(types=types):
            yield from types
        case msgspec.inspect.TupleType(item_types=types):
            yield from types
        case msgspec.inspect.VarTupleType(item_type=item):
            yield item
        case msgspec.inspect.DictType(value_type=value):
            yield value
        case _:
            pass


def meanings(model: type) -> Mapping[str, str]:
    """What each field of a model means, by its name on the wire: the docstring below it."""
    found: dict[str, str] = {}
    for ancestor in reversed(model.__mro__):
        found |= _docstrings(ancestor.__module__).get(ancestor.__name__, {})
    described = msgspec.inspect.type_info(model)
    assert isinstance(described, _Model)
    named = {field.encode_name: found[field.name] for field in described.fields if field.name in found}
    tag_field = getattr(described, "tag_field", None)
    return named if tag_field is None else {tag_field: "Tells this shape from others.", **named}


@functools.cache
def _docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """The docstrings below fields, by class and field; none where a module comes without its source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {each.name: dict(_explained(each)) for each in tree.body if isinstance(each, ast.ClassDef)}


def _explained(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                yield name, " ".join(text.split())
            case _:
                pass


def _method(name: str, described: Description, components: Mapping[str, dict[str, Any]]) -> JsonObject:
    model = components[described.params.__name__]
    required = model["required"]
    method: dict[str, Any] = {
        "name": name,
        "summary": described.summary,
        "paramStructure": "by-name",
        "params": [
            {
                "name": field,
                "description": schema.get("description", ""),
                "required": field in required,
                "schema": schema,
            }
            for field, schema in model["properties"].items()
        ],
        "errors": [{"$ref": f"{_ERRORS}{each.name}"} for each in failures(described)],
        "x-notifications": list(described.notifications),
    }
    if described.result is not None:
        result = described.result.__name__
        method["result"] = {"name": result, "schema": {"$ref": f"{_SCHEMAS}{result}"}}
    return method


def failures(described: Description) -> tuple[Failure, ...]:
    """The codes that this method in particular can end in."""
    if described.result is None:
        return ()
    codes = {kind.code for kind in described.errors}
    if described.params.__struct_fields__:
        codes.add(errors.INVALID_PARAMS)
    return tuple(each for each in FAILURES if each.code in codes)


def _error(failure: Failure) -> JsonObject:
    return {"code": failure.code, "message": failure.meaning}
