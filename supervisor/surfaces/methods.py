"""What can be asked over the control socket: one table of name, params and handler.

A handler gets the service and its params as a value and returns what is to be encoded. Everything it reads
is in memory, so it never waits. `tools/call` alone answers later, through its reply.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from supervisor import __version__
from supervisor.core.catalog import Listed, array
from supervisor.core.globs import allows
from supervisor.core.jsonrpc import Request
from supervisor.core.servers import Loaded
from supervisor.errors import InvalidParams, Outcome, UnknownMethod
from supervisor.runtime.calls import CallRequest
from supervisor.runtime.fleet import Fleet, shown

Params = TypeVar("Params", bound=msgspec.Struct)


class NoParams(msgspec.Struct, rename="camel", frozen=True):
    pass


class ServerParams(msgspec.Struct, rename="camel", frozen=True):
    server: str


class ToolParams(msgspec.Struct, rename="camel", frozen=True):
    name: str


class CancelParams(msgspec.Struct, rename="camel", frozen=True):
    request_id: msgspec.Raw


class ListParams(msgspec.Struct, rename="camel", frozen=True):
    server: str | None = None
    tools: tuple[str, ...] | None = None
    since: int | None = None
    all: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """What handlers work on."""

    fleet: Fleet
    loaded: Loaded
    socket: str
    pid: int
    started_at: float
    shut_down: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Method:
    params: type[msgspec.Struct]
    handler: Callable[[Service, Any], Any]


def ping(_service: Service, _params: NoParams) -> Mapping[str, Any]:
    return {}


def info(service: Service, _params: NoParams) -> Mapping[str, Any]:
    view = service.fleet.view()
    return {
        "version": __version__,
        "pid": service.pid,
        "uptime": time.time() - service.started_at,
        "socket": service.socket,
        "configFiles": [{"path": file.path, "found": file.found} for file in service.loaded.files],
        "generation": view.generation,
        "servers": {
            "total": len(view.servers),
            "connected": sum(server.state == "connected" for server in view.servers),
        },
        "problems": [str(problem) for problem in service.loaded.problems],
    }


def shutdown(service: Service, _params: NoParams) -> Mapping[str, Any]:
    service.shut_down()
    return {}


def servers_list(service: Service, _params: NoParams) -> Mapping[str, Any]:
    return {"servers": service.fleet.view().servers}


def servers_get(service: Service, params: ServerParams) -> Any:
    return service.fleet.detail(params.server)


def tools_list(service: Service, params: ListParams) -> Mapping[str, Any]:
    fleet = service.fleet
    if params.server is not None:
        fleet.member(params.server)
    select = _selection(params)
    pending = fleet.starting()
    answer: dict[str, Any] = {
        "tools": msgspec.Raw(fleet.catalog.listing(select)),
        "generation": fleet.generations.number,
        "complete": not pending,
        "pending": pending,
    }
    if params.since is not None:
        difference = fleet.generations.since(params.since, select)
        if difference is not None:
            changed = msgspec.Raw(array(difference.changed))
            answer |= {"tools": changed, "removed": difference.removed, "since": params.since}
    if params.all:
        answer["leftOut"] = [shown(entry) for entry in fleet.catalog.left_out]
    return answer


def _selection(params: ListParams) -> Callable[[Listed], bool] | None:
    server, patterns = params.server, params.tools
    if server is None and patterns is None:
        return None

    def wanted(listed: Listed) -> bool:
        return (server is None or listed.server == server) and (
            patterns is None or allows(patterns, listed.public_name)
        )

    return wanted


def tools_get(service: Service, params: ToolParams) -> Mapping[str, Any]:
    service.fleet.route(params.name)
    listed = service.fleet.catalog.by_name[params.name]
    return {
        "tool": msgspec.Raw(listed.raw),
        "server": listed.server,
        "approval": listed.approval,
        "reason": listed.reason,
    }


METHODS: Mapping[str, Method] = {
    "supervisor/ping": Method(NoParams, ping),
    "supervisor/info": Method(NoParams, info),
    "supervisor/shutdown": Method(NoParams, shutdown),
    "servers/list": Method(NoParams, servers_list),
    "servers/get": Method(ServerParams, servers_get),
    "tools/list": Method(ListParams, tools_list),
    "tools/get": Method(ToolParams, tools_get),
}


_ENCODER = msgspec.json.Encoder()
_CALL = msgspec.json.Decoder(CallRequest)


def handle(service: Service, request: Request) -> bytes:
    """The result of a request, encoded.

    Raises:
        SupervisorError: there is none, and why.
    """
    method = METHODS.get(request.method)
    if method is None:
        raise UnknownMethod(f"cannot find the method {request.method!r}")
    return _ENCODER.encode(method.handler(service, read_params(method.params, request.params)))


def read_params(model: type[Params], raw: msgspec.Raw) -> Params:
    """The params of a request as its model.

    Raises:
        InvalidParams: they do not fit; the message names the field.
    """
    try:
        return msgspec.json.decode(raw or b"{}", type=model)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise InvalidParams(f"cannot accept these params: {exc}") from exc


def read_call(raw: msgspec.Raw) -> CallRequest:
    """The params of `tools/call`.

    Raises:
        InvalidParams: they do not fit; the message names the field.
    """
    try:
        request = _CALL.decode(raw or b"{}")
    except (msgspec.DecodeError, RecursionError) as exc:
        raise InvalidParams(f"cannot accept these params: {exc}", outcome=Outcome.REJECTED) from exc
    for name, value in (("arguments", request.arguments), ("_meta", request.meta)):
        if value and bytes(memoryview(value)[:1]) != b"{":
            raise InvalidParams(
                f"cannot accept these params: {name} must be an object", outcome=Outcome.REJECTED
            )
    return request
