"""What a method of the control API is, and what it says of itself.

Types only: the table of methods is in `methods`, and what is made of their descriptions in `describe`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from supervisor.errors import SupervisorError
from supervisor.surfaces.models import JsonObject
from supervisor.surfaces.service import Caller, Service


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has to know of a method."""

    params: type[msgspec.Struct]
    result: type[msgspec.Struct] | None
    """None for a notification, which has no answer."""
    summary: str
    errors: tuple[type[SupervisorError], ...] = ()
    """Those that every request can end in aside."""
    notifications: tuple[str, ...] = ()
    """What the client may be sent because of it, by the method of the notification."""
    example: Mapping[str, Any] = {}
    """Params that are accepted."""


class Method(Description, frozen=True, kw_only=True):
    """A method that is looked up by its name."""

    handler: Callable[[Service, Any, Caller], Any]


class Notification(msgspec.Struct, frozen=True):
    """What the daemon sends on its own."""

    summary: str
    params: Any
    """A struct, or a union of them."""


class OpenRpcDocument(msgspec.Struct, frozen=True):
    """A description of this API for programs, after https://spec.open-rpc.org."""

    openrpc: str
    """The version of OpenRPC."""
    info: JsonObject
    """Title, version, and how to talk to the daemon."""
    methods: tuple[JsonObject, ...]
    """Each with name, summary, params, result, errors and `x-notifications`."""
    components: JsonObject
    """Schemas and errors that the others refer to."""
    notifications: tuple[JsonObject, ...] = msgspec.field(name="x-notifications")
    """What the daemon sends on its own."""
    error_data: JsonObject = msgspec.field(name="x-error-data")
    """The schema of the `data` of every error."""
