"""What can be asked over the control socket: one table of name, params, result, handler and description.

A handler gets the service, its params as a value, and the caller; it returns what is to be encoded, at once
or as a coroutine when it has to wait for something to become so. `tools/call` and `notifications/cancelled`
are described here and have no handler: they are the hot path, and `control` serves them itself.
"""

import functools
from collections.abc import Mapping
from typing import TypeVar

import anyio.to_thread
import msgspec

from supervisor.core.jsonrpc import UNREADABLE
from supervisor.core.view import ServerDetail, ServerView
from supervisor.errors import (
    BadConfig,
    Busy,
    Cancelled,
    InvalidParams,
    RefusedByPolicy,
    ServerDied,
    ServerUnavailable,
    TimedOut,
    UnknownMethod,
    UnknownServer,
    UnknownTool,
)
from supervisor.runtime.bus import LogEvent, News
from supervisor.surfaces import (
    agent_methods,
    daemon_methods,
    models,
    server_methods,
    tool_methods,
)
from supervisor.surfaces.daemon_methods import NoParams
from supervisor.surfaces.explanation import Why
from supervisor.surfaces.method import Description, Method, Notification, OpenRpcDocument
from supervisor.surfaces.server_methods import CommandParams, OverrideParams, ServerParams
from supervisor.surfaces.service import Caller, Service

Params = TypeVar("Params", bound=msgspec.Struct)


async def _describe(_service: Service, _params: NoParams, _caller: Caller) -> msgspec.Raw:
    # Reading the docstrings takes a while, once; calls do not wait for it.
    return await anyio.to_thread.run_sync(_description)


@functools.cache
def _description() -> msgspec.Raw:
    # Few ask, and those once.
    from supervisor.surfaces.describe import document

    return msgspec.Raw(msgspec.json.encode(document(DESCRIPTIONS, NOTIFICATIONS)))


def _why(service: Service, params: ServerParams, caller: Caller) -> Why:
    # All that is known of causes is loaded when somebody asks for one.
    from supervisor.surfaces.why_methods import why

    return why(service, params, caller)


METHODS: Mapping[str, Method] = {
    "supervisor/ping": Method(
        params=NoParams,
        result=daemon_methods.Nothing,
        handler=daemon_methods.ping,
        summary="Answers, so the daemon is alive.",
    ),
    "supervisor/info": Method(
        params=NoParams,
        result=daemon_methods.Information,
        handler=daemon_methods.info,
        summary="Says what the daemon is: version, process, uptime, files, generation, protocol.",
    ),
    "supervisor/describe": Method(
        params=NoParams,
        result=OpenRpcDocument,
        handler=_describe,
        summary="Describes this API for programs, as an OpenRPC document.",
    ),
    "supervisor/reload": Method(
        params=daemon_methods.ReloadParams,
        result=daemon_methods.ReloadResult,
        handler=daemon_methods.reload,
        summary="Reads the configuration again and makes it so; answers when it is so.",
        errors=(BadConfig,),
        example={"dryRun": True},
    ),
    "supervisor/shutdown": Method(
        params=NoParams,
        result=daemon_methods.Nothing,
        handler=daemon_methods.shutdown,
        summary="Stops all servers and ends the daemon; answers at once, and hangs up when all are gone.",
    ),
    "servers/list": Method(
        params=NoParams,
        result=server_methods.ServerList,
        handler=server_methods.servers_list,
        summary="Shows how every server is.",
    ),
    "servers/get": Method(
        params=ServerParams,
        result=ServerDetail,
        handler=server_methods.servers_get,
        summary="Shows one server with all details.",
        errors=(UnknownServer,),
        example={"server": "demo"},
    ),
    "servers/start": Method(
        params=CommandParams,
        result=ServerView,
        handler=server_methods.start,
        summary="Starts a server; answers when it is connected.",
        errors=(UnknownServer, ServerUnavailable),
        example={"server": "demo"},
    ),
    "servers/stop": Method(
        params=CommandParams,
        result=ServerView,
        handler=server_methods.stop,
        summary="Stops a server; answers when all its processes are gone, or somebody starts it again.",
        errors=(UnknownServer, Cancelled),
        example={"server": "demo", "wait": False},
    ),
    "servers/restart": Method(
        params=CommandParams,
        result=ServerView,
        handler=server_methods.restart,
        summary="Stops a server and starts it again; answers when it is connected.",
        errors=(UnknownServer, ServerUnavailable),
        example={"server": "demo"},
    ),
    "servers/enable": Method(
        params=OverrideParams,
        result=ServerView,
        handler=server_methods.enable,
        summary="Enables a server whatever its entry says, across restarts of the daemon, and starts it.",
        errors=(UnknownServer, ServerUnavailable, BadConfig),
        example={"server": "demo"},
    ),
    "servers/disable": Method(
        params=OverrideParams,
        result=ServerView,
        handler=server_methods.disable,
        summary="Disables a server whatever its entry says, across restarts of the daemon, and stops it.",
        errors=(UnknownServer, BadConfig),
        example={"server": "demo"},
    ),
    "servers/logs": Method(
        params=server_methods.LogParams,
        result=server_methods.LogResult,
        handler=server_methods.logs,
        summary="Gives the last lines that a server wrote to its standard error.",
        errors=(UnknownServer,),
        notifications=("notifications/log",),
        example={"server": "demo", "lines": 20, "follow": True},
    ),
    "servers/why": Method(
        params=ServerParams,
        result=Why,
        handler=_why,
        summary="Explains why a server is as it is, and suggests what to do.",
        errors=(UnknownServer,),
        example={"server": "demo"},
    ),
    "tools/list": Method(
        params=tool_methods.ListParams,
        result=tool_methods.ToolList,
        handler=tool_methods.tools_list,
        summary="Lists the tools that can be called now, or what changed since a generation.",
        errors=(UnknownServer,),
        example={"tools": ["demo_*", "!*_wait"], "since": 1},
    ),
    "tools/get": Method(
        params=tool_methods.ToolParams,
        result=tool_methods.ToolDetail,
        handler=tool_methods.tools_get,
        summary="Gives one definition, its server, and whether a call needs approval.",
        errors=(UnknownTool, ServerUnavailable, RefusedByPolicy),
        example={"name": "demo_time_now"},
    ),
    "agents/list": Method(
        params=NoParams,
        result=models.AgentList,
        handler=agent_methods.agents_list,
        summary="Lists the agents and how many tools each may see.",
    ),
    "agents/get": Method(
        params=agent_methods.AgentParams,
        result=models.AgentDetail,
        handler=agent_methods.agents_get,
        summary="Gives one agent's patterns and the tools that they match now.",
        example={"agent": "reader"},
    ),
    "events/subscribe": Method(
        params=daemon_methods.SubscribeParams,
        result=daemon_methods.Subscription,
        handler=daemon_methods.subscribe,
        summary="Sends news as notifications until the client leaves.",
        notifications=("notifications/events",),
        example={"kinds": ["transition", "catalog"]},
    ),
}

DESCRIPTIONS: Mapping[str, Description] = {
    **METHODS,
    "tools/call": Description(
        params=models.CallParams,
        result=models.CallResult,
        summary="Calls a tool; the call ends in exactly one outcome and is never sent twice.",
        errors=(
            UnknownTool,
            ServerUnavailable,
            ServerDied,
            TimedOut,
            Cancelled,
            Busy,
            RefusedByPolicy,
        ),
        notifications=("notifications/progress",),
        example={"name": "demo_time_now", "arguments": {"zone": "Europe/Berlin"}, "timeout": 10},
    ),
    "notifications/cancelled": Description(
        params=models.CancelledParams,
        result=None,
        summary="Cancels a call of this connection; the call ends with an error, and its server is told.",
        example={"requestId": 7},
    ),
}
"""Everything that a client may send."""

NOTIFICATIONS: Mapping[str, Notification] = {
    "notifications/progress": Notification("How far a call has come.", models.Progress),
    "notifications/events": Notification("News of the fleet.", News | models.LostEvent),
    "notifications/log": Notification("A line of the server that is followed.", LogEvent | models.LostEvent),
}
"""Everything that the daemon sends beside answers."""


def find(name: str) -> Method:
    """The method of that name.

    Raises:
        UnknownMethod: there is none.
    """
    method = METHODS.get(name)
    if method is None:
        raise UnknownMethod(f"cannot find the method {name!r}; supervisor/describe lists them all")
    return method


def read_params(model: type[Params], raw: msgspec.Raw) -> Params:
    """The params of a request as its model.

    Raises:
        InvalidParams: they do not fit; the message names the field.
    """
    try:
        return msgspec.json.decode(raw or b"{}", type=model)
    except UNREADABLE as exc:
        raise InvalidParams(f"cannot accept these params: {exc}") from exc
