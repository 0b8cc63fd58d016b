"""What a method of the control API is, and what it says of itself.

Types only: the table of methods is in `methods`, and what is made of their descriptions in `describe`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from supervisor.errors import SupervisorError
from supervisor.surfaces.service import Caller, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a client has to know of a method."""

    params: type[msgspec.Struct]
    result: type[msgspec.Struct] | None
    """None for a notification, which has no answer."""
    summary: str
    errors: tuple[type[SupervisorError], ...] = ()
    """Those that every request can end in aside."""
    notifications: tuple[str, ...] = ()
    """What the client may be sent because of it, by the method of the notification."""
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Params that are accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Description):
    """A method that is looked up by its name."""

    handler: Callable[[Service, Any, Caller], Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """What the daemon sends on its own."""

    summary: str
    params: Any
    """A struct, or a union of them."""
