"""The daemon's Python client: `Client` for async programs, `SyncClient` for all others, and their errors.

    from supervisor.client import SyncClient

    with SyncClient() as client:
        print(client.call("demo_time_now", {"zone": "Europe/Paris"}, flatten=True)["output"])

Importing this loads the standard library only; anyio is loaded with the first use of `Client`. A call is
never retried here: an error's `data["outcome"]` says whether it may have run.
"""

from typing import TYPE_CHECKING

from supervisor.errors import (
    BadConfig,
    Busy,
    Cancelled,
    DaemonUnreachable,
    ForeignError,
    InvalidParams,
    InvalidRequest,
    Outcome,
    RefusedByPolicy,
    ServerDied,
    ServerUnavailable,
    SupervisorError,
    TimedOut,
    TooLarge,
    UnknownMethod,
    UnknownServer,
    UnknownTool,
)
from supervisor.surfaces.client import Subscription, SyncClient
from supervisor.surfaces.exchange import Progress

if TYPE_CHECKING:
    from supervisor.surfaces.aclient import Client, EventStream

__all__ = [
    "BadConfig",
    "Busy",
    "Cancelled",
    "Client",
    "DaemonUnreachable",
    "EventStream",
    "ForeignError",
    "InvalidParams",
    "InvalidRequest",
    "Outcome",
    "Progress",
    "RefusedByPolicy",
    "ServerDied",
    "ServerUnavailable",
    "Subscription",
    "SupervisorError",
    "SyncClient",
    "TimedOut",
    "TooLarge",
    "UnknownMethod",
    "UnknownServer",
    "UnknownTool",
]


def __getattr__(name: str) -> object:
    """Load the async client when somebody wants it."""
    if name not in ("Client", "EventStream"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from supervisor.surfaces import aclient

    return getattr(aclient, name)
