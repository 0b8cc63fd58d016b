"""Methods about tools: the listing and single definitions. `tools/call` is the control socket's own."""

from collections.abc import Callable
from typing import Annotated

import msgspec

from supervisor.core.catalog import Listed, array
from supervisor.core.jsonrpc import UNREADABLE, plain_call
from supervisor.core.policy import Approval
from supervisor.core.view import shown
from supervisor.errors import InvalidParams, Outcome
from supervisor.runtime.calls import CallRequest
from supervisor.surfaces.service import Caller, Service
from supervisor.surfaces.toolnames import beginnings

_Definition = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
_Definitions = Annotated[
    msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "array", "items": {"type": "object"}})
]


class ToolParams(msgspec.Struct, rename="camel", frozen=True):
    """Which tool."""

    name: str
    """Its public name, as `tools/list` gives it."""


class ListParams(msgspec.Struct, rename="camel", frozen=True):
    """Which tools; what is given must all be true of a tool."""

    server: str | None = None
    """Only the tools of this server."""
    agent: str | None = None
    """Only those that this agent may see."""
    tools: tuple[str, ...] | None = None
    """Only those that these patterns allow: names, globs with `*`, and `!` to deny; the last match wins."""
    since: int | None = None
    """A generation that the client knows; the answer then holds only what changed, as far back as it can."""
    all: bool = False
    """Add what cannot be called: `leftOut` with the reason, `former` and `unlisted`."""


class LeftOutTool(msgspec.Struct, rename="camel", frozen=True):
    """A tool that is not offered."""

    server: str
    """Whose it is."""
    tool: str
    """Its name there."""
    name: str
    """The public name that it would have."""
    cause: str
    """`policy`, `filter`, `collision` or `definition`."""
    reason: str
    """In words."""


class ToolList(msgspec.Struct, rename="camel", frozen=True):
    """Tools, or what changed about them."""

    generation: int
    """The number of this listing; it grows when the listing changes by a byte."""
    complete: bool
    """False while servers are still starting, whose tools are not here yet."""
    pending: tuple[str, ...]
    """Those servers."""
    tools: _Definitions
    """MCP tool objects, sorted by name, with `server`, `approval` and, if known only from before the daemon
    started, `remembered` in `_meta`; with `since`, those that are new or changed."""
    removed: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The names that are gone since then. Its absence means that `tools` is the whole listing."""
    since: int | msgspec.UnsetType = msgspec.UNSET
    """The generation that the difference is to."""
    left_out: tuple[LeftOutTool, ...] | msgspec.UnsetType = msgspec.UNSET
    """With `all`: the tools of running servers that are not offered."""
    former: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """With `all`: the names of the tools, offered or not, of servers that cannot answer now."""
    unlisted: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """With `all`: how the names of tools begin whose server has not listed any since the daemon started."""


class ToolDetail(msgspec.Struct, rename="camel", frozen=True):
    """One tool."""

    tool: _Definition
    """The MCP tool object, as in `tools/list`."""
    server: str
    """Whose it is."""
    approval: Approval
    """Whether a call needs `approved: true`."""
    reason: str
    """Why, in words."""


class CancelParams(msgspec.Struct, rename="camel", frozen=True):
    request_id: msgspec.Raw


def tools_list(service: Service, params: ListParams, _caller: Caller) -> ToolList:
    fleet = service.fleet
    select = _selection(service, params)
    pending = fleet.starting()
    difference = None if params.since is None else fleet.generations.since(params.since, select)
    return ToolList(
        generation=fleet.generations.number,
        complete=not pending,
        pending=pending,
        tools=msgspec.Raw(fleet.catalog.listing(select) if difference is None else array(difference.changed)),
        removed=msgspec.UNSET if difference is None else difference.removed,
        since=msgspec.UNSET if difference is None or params.since is None else params.since,
        left_out=_left_out(service) if params.all else msgspec.UNSET,
        former=fleet.listing.former_names if params.all else msgspec.UNSET,
        unlisted=beginnings(service) if params.all else msgspec.UNSET,
    )


def _left_out(service: Service) -> tuple[LeftOutTool, ...]:
    return tuple(LeftOutTool(**shown(entry)) for entry in service.fleet.catalog.left_out)


def _selection(service: Service, params: ListParams) -> Callable[[Listed], bool] | None:
    if params.server is not None:
        service.fleet.member(params.server)
    allowed = service.fleet.selection(params.agent, params.tools)
    if params.server is None and allowed is None:
        return None

    def wanted(listed: Listed) -> bool:
        return (params.server is None or listed.server == params.server) and (
            allowed is None or allowed(listed.public_name)
        )

    return wanted


def tools_get(service: Service, params: ToolParams, _caller: Caller) -> ToolDetail:
    route = service.fleet.route(params.name)
    listed = service.fleet.catalog.by_name.get(params.name)
    if listed is None:
        # It was listed before, and its server is on its way back.
        raise service.fleet.member(route.server).unavailable()
    return ToolDetail(msgspec.Raw(listed.raw), listed.server, listed.approval, listed.reason)


_CALL = msgspec.json.Decoder(CallRequest)
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_BRACE = ord("{")


def read_call(raw: bytes | msgspec.Raw) -> CallRequest:
    """The params of `tools/call`.

    Raises:
        InvalidParams: they do not fit; the message names the field.
    """
    try:
        request = _CALL.decode(raw or b"{}")
    except UNREADABLE as exc:
        raise InvalidParams(f"cannot accept these params: {exc}", outcome=Outcome.REJECTED) from exc
    if memoryview(request.arguments)[0] != _BRACE:
        raise _not_an_object("arguments")
    if request.meta and memoryview(request.meta)[0] != _BRACE:
        raise _not_an_object("_meta")
    return request


def read_plain_call(line: bytes, max_depth: int) -> tuple[bytes, CallRequest] | None:
    """Id and params of a call without options, as most clients write it; None for all else."""
    found = plain_call(line)
    if found is None or not line.isascii():
        return None
    # What has room for no more than so many pairs of brackets cannot nest deeper.
    if len(line) > 2 * max_depth and line.count(b"{") + line.count(b"[") > max_depth:
        return None
    identity, name, arguments = found.groups()
    try:
        return identity, CallRequest(name.decode(), _VALUE.decode(arguments))
    except UNREADABLE:
        return None


def _not_an_object(name: str) -> InvalidParams:
    sentence = f"cannot accept these params: {name} must be an object"
    return InvalidParams(sentence, outcome=Outcome.REJECTED)
