"""The two eras of MCP: which versions exist, what each request carries, what a greeting means.

The handshake era (2024-11-05 to 2025-11-25) opens with `initialize`. The modern era (2026-07-28) has no
session: `server/discover` introduces the server, and every request describes itself in its `_meta`.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from supervisor.core.jsonrpc import UNREADABLE
from supervisor.core.jsontext import is_deeper

MODERN = "2026-07-28"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_HANDSHAKE = HANDSHAKE_VERSIONS[-1]
SPOKEN = (MODERN, *reversed(HANDSHAKE_VERSIONS))
"""Every version that can be spoken with a server, the newest first."""

UNSUPPORTED_VERSION = -32022

_LONGEST_INFO, _DEEPEST_INFO = 64 * 1024, 20

Protocol = Literal["auto", "2025-11-25", "2026-07-28"]

_PREFIX = "io.modelcontextprotocol/"
CAPABILITIES = f"{_PREFIX}clientCapabilities"
"""Under which every modern request says what its client can do."""


class Greeting(msgspec.Struct):
    """What a server says of itself, in the words of either era."""

    protocol_version: str = msgspec.field(default="", name="protocolVersion")
    supported_versions: tuple[str, ...] = msgspec.field(default=(), name="supportedVersions")
    capabilities: dict[str, msgspec.Raw] = {}
    server_info: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="serverInfo")


class _Identity(msgspec.Struct):
    server_info: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name=f"{_PREFIX}serverInfo")


class _Introduction(msgspec.Struct):
    """A greeting by which a modern server introduces itself: where all its results say whose they are."""

    meta: _Identity = msgspec.field(default_factory=_Identity, name="_meta")


class _Supported(msgspec.Struct):
    supported: tuple[str, ...] = ()


class _Tools(msgspec.Struct):
    list_changed: bool = msgspec.field(default=False, name="listChanged")


def identity_stamp(client_info: Mapping[str, str]) -> bytes:
    """The inside of the `_meta` that every modern request carries, without the braces."""
    meta: dict[str, Any] = {
        f"{_PREFIX}protocolVersion": MODERN,
        f"{_PREFIX}clientInfo": client_info,
        CAPABILITIES: {},
    }
    return msgspec.json.encode(meta)[1:-1]


def initialize_params(client_info: Mapping[str, str], *, roots: bool) -> bytes:
    """What we say of ourselves; only whoever has roots to tell of says that it can."""
    hello: dict[str, Any] = {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": {"roots": {}} if roots else {},
        "clientInfo": client_info,
    }
    return msgspec.json.encode(hello)


def read_greeting(result: bytes | msgspec.Raw) -> Greeting:
    """What a server answered to `initialize` or `server/discover`.

    Raises:
        msgspec.DecodeError: it is not a greeting.
    """
    greeting = msgspec.json.decode(result, type=Greeting)
    greeting.server_info = _presentable(greeting.server_info or _introduction(result))
    return greeting


def _presentable(server_info: dict[str, Any]) -> dict[str, Any]:
    """It, unless it is nothing that anybody would want to see."""
    text = msgspec.json.encode(server_info)
    return {} if len(text) > _LONGEST_INFO or is_deeper(text, _DEEPEST_INFO) else server_info


def _introduction(result: bytes | msgspec.Raw) -> dict[str, Any]:
    """Who the server says that it is; nothing where that cannot be read, as no talk hangs on it."""
    try:
        return msgspec.json.decode(result, type=_Introduction).meta.server_info
    except UNREADABLE:
        return {}


def supported_versions(data: bytes | msgspec.Raw) -> tuple[str, ...]:
    """The versions named in the data of an unsupported-version error."""
    try:
        return msgspec.json.decode(data, type=_Supported).supported
    except UNREADABLE:
        return ()


def announces_tool_changes(greeting: Greeting) -> bool:
    tools = greeting.capabilities.get("tools")
    try:
        return tools is not None and msgspec.json.decode(tools, type=_Tools).list_changed
    except UNREADABLE:
        return False


def offers_tools(greeting: Greeting) -> bool:
    return "tools" in greeting.capabilities
