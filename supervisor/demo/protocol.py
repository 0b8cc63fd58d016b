"""What each request is answered with, in both protocol eras; no I/O and no threads.

Each request is judged by itself: one that carries a protocol version in its `_meta` is of the modern era
(2026-07-28), any other of the old one. A handshake is answered, never insisted on.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from supervisor import __version__
from supervisor.demo.arguments import problem
from supervisor.demo.tool import CallCancelled, Control, JsonObject, Output, Tool, ToolError
from supervisor.demo.tools import TOOLS
from supervisor.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

UNSUPPORTED_PROTOCOL_VERSION = -32022
MODERN_VERSIONS = ("2026-07-28",)
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first; the first is offered to a client that asks for one we do not speak."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

SERVER = {"name": "mcp-supervisor-demo", "title": "MCP Supervisor demo", "version": __version__}
CAPABILITIES: JsonObject = {"tools": {}}
INSTRUCTIONS = "Small read-only tools about time, text and this host."
_CACHEABLE: JsonObject = {"ttlMs": 3_600_000, "cacheScope": "public"}

RequestId = str | int


class Refused(Exception):
    """The request gets a JSON-RPC error."""

    def __init__(self, code: int, message: str, *, request_id: RequestId | None = None, **known: Any) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id
        self.known = known


class Request(NamedTuple):
    """A call that wants an answer, or a notification, which has no id."""

    id: RequestId | None
    method: str
    params: JsonObject

    @property
    def meta(self) -> JsonObject:
        meta = self.params.get("_meta")
        return cast("JsonObject", meta) if isinstance(meta, dict) else {}

    @property
    def slow(self) -> bool:
        """Whether the answer may take long."""
        tool = TOOLS.get(str(self.params.get("name")))
        return self.method == "tools/call" and tool is not None and tool.slow


def read(message: object) -> Request | None:
    """The request in a decoded message, or None for what must not be answered. Raises: Refused.

    Those are responses, since we never asked, and notifications with params we cannot read.
    """
    if not isinstance(message, dict):
        raise Refused(INVALID_REQUEST, "cannot take a message that is not an object")
    fields = cast("JsonObject", message)
    if "method" not in fields and ("result" in fields or "error" in fields):
        return None
    method, request_id, params = fields.get("method"), fields.get("id"), fields.get("params", {})
    if fields.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Refused(INVALID_REQUEST, "cannot take a message without jsonrpc 2.0 and a method")
    if "id" in fields and not _is_request_id(request_id):
        raise Refused(INVALID_REQUEST, "cannot take an id that is neither a string nor an integer")
    if isinstance(params, dict):
        return Request(request_id, method, cast("JsonObject", params))
    if request_id is None:
        return None
    raise Refused(INVALID_PARAMS, "cannot take params that are not an object", request_id=request_id)


def _is_request_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def answer(request: Request, control: Control) -> JsonObject:
    """The response to a request that has an id. Raises: CallCancelled."""
    try:
        return {"jsonrpc": "2.0", "id": request.id, "result": _result(request, control)}
    except Refused as refused:
        return refusal(request.id, refused)


def refusal(request_id: RequestId | None, refused: Refused) -> JsonObject:
    """The error response; the id is null where it could not be read."""
    error: JsonObject = {"code": refused.code, "message": str(refused)}
    if refused.known:
        error["data"] = refused.known
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def _result(request: Request, control: Control) -> JsonObject:
    if _is_modern(request):
        _check_envelope(request.meta)
        result = _handler(_MODERN, request.method)(request, control)
        return {"resultType": "complete", **result, "_meta": {SERVER_KEY: SERVER}}
    return _handler(_OLD, request.method)(request, control)


def _is_modern(request: Request) -> bool:
    if request.method == "initialize":
        return False
    return request.method == "server/discover" or VERSION_KEY in request.meta


def _check_envelope(meta: JsonObject) -> None:
    if missing := [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]:
        raise Refused(INVALID_PARAMS, f"cannot take a request whose _meta lacks {' and '.join(missing)}")
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        raise Refused(INVALID_PARAMS, f"cannot take a {VERSION_KEY} that is not a string")
    if version not in MODERN_VERSIONS:
        message = f"cannot speak protocol version {version}; ask for {', '.join(MODERN_VERSIONS)}"
        raise Refused(
            UNSUPPORTED_PROTOCOL_VERSION, message, supported=list(MODERN_VERSIONS), requested=version
        )


_Handler = Callable[[Request, Control], JsonObject]


def _handler(methods: Mapping[str, _Handler], method: str) -> _Handler:
    if method not in methods:
        raise Refused(METHOD_NOT_FOUND, f"cannot find method {method!r}; known: {', '.join(methods)}")
    return methods[method]


def _initialize(request: Request, _: Control) -> JsonObject:
    asked = request.params.get("protocolVersion")
    if not isinstance(asked, str):
        raise Refused(INVALID_PARAMS, "cannot initialize without a protocolVersion string")
    return {
        "protocolVersion": asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0],
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": INSTRUCTIONS,
    }


def _discover(_request: Request, _: Control) -> JsonObject:
    return {
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
        **_CACHEABLE,
    }


def _ping(_request: Request, _: Control) -> JsonObject:
    return {}


def _tools_list(request: Request, _: Control) -> JsonObject:
    if request.params.get("cursor") is not None:
        raise Refused(INVALID_PARAMS, "cannot find that cursor; the list has one page, ask without one")
    return {"tools": [tool.definition for tool in TOOLS.values()]}


def _cacheable_tools_list(request: Request, control: Control) -> JsonObject:
    return {**_tools_list(request, control), **_CACHEABLE}


def _tools_call(request: Request, control: Control) -> JsonObject:
    name, arguments = request.params.get("name"), request.params.get("arguments", {})
    if not isinstance(name, str) or name not in TOOLS:
        raise Refused(INVALID_PARAMS, f"cannot find tool {name!r}; known: {', '.join(TOOLS)}")
    if not isinstance(arguments, dict):
        raise Refused(INVALID_PARAMS, "cannot take arguments that are not an object")
    return call(TOOLS[name], cast("JsonObject", arguments), control)


def call(tool: Tool, arguments: JsonObject, control: Control) -> JsonObject:
    """The result of a tool; what the caller did wrong is a result too. Raises: CallCancelled."""
    if fault := problem(tool.input_schema, arguments):
        return _failure(fault)
    try:
        return _content(tool.run(arguments, control))
    except ToolError as error:
        return _failure(str(error))
    except CallCancelled:
        raise
    except Exception as error:  # noqa: BLE001 the boundary: a bug in a tool ends that call, not the server
        return _failure(f"cannot finish {tool.name}: {type(error).__name__}: {error}")


def _failure(sentence: str) -> JsonObject:
    return {"content": [{"type": "text", "text": sentence}], "isError": True}


def _content(output: Output) -> JsonObject:
    if isinstance(output, str):
        return {"content": [{"type": "text", "text": output}], "isError": False}
    text = json.dumps(output, indent=2, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": output, "isError": False}


_OLD: Mapping[str, _Handler] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _tools_list,
    "tools/call": _tools_call,
}
_MODERN: Mapping[str, _Handler] = {
    "server/discover": _discover,
    "tools/list": _cacheable_tools_list,
    "tools/call": _tools_call,
}
