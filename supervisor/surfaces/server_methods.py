"""Methods about servers: what they are, and what they shall do."""

import time
from typing import Annotated

import msgspec

from supervisor.core.servers import BadServer
from supervisor.core.view import ServerDetail, ServerView, not_configured
from supervisor.errors import BadConfig
from supervisor.runtime.bus import LogEvent, News
from supervisor.surfaces.daemon_methods import NoParams
from supervisor.surfaces.service import Caller, Service


class ServerParams(msgspec.Struct, rename="camel", frozen=True):
    """Which server."""

    server: str
    """Its name in the configuration."""


class CommandParams(msgspec.Struct, rename="camel", frozen=True):
    """What is to be done to which server."""

    server: str
    """Its name in the configuration."""
    wait: bool = True
    """Answer when it is so; else as soon as it is wanted."""


class OverrideParams(msgspec.Struct, rename="camel", frozen=True):
    """Which server is to be enabled or disabled, whatever its entry says."""

    server: str
    """Its name in the configuration."""
    wait: bool = True
    """Answer when it is so; else as soon as it is wanted."""
    reset: bool = False
    """Forget what an operator said, so that its entry counts again; also one that was removed."""


class LogParams(msgspec.Struct, rename="camel", frozen=True):
    """Which lines of which server."""

    server: str
    """Its name in the configuration."""
    lines: Annotated[int, msgspec.Meta(ge=0)] = 100
    """How many of the last lines; the daemon keeps 500, or 256 KiB."""
    follow: bool = False
    """Send further lines as `notifications/log`, until the client leaves."""


class ServerList(msgspec.Struct, rename="camel", frozen=True):
    """Every server."""

    servers: tuple[ServerView, ...]
    """Sorted by name."""


class StderrLine(msgspec.Struct, rename="camel", frozen=True):
    """What a server wrote."""

    at: float
    """When, in seconds since 1970."""
    text: str
    """The line, without secrets."""


class LogResult(msgspec.Struct, rename="camel", frozen=True):
    """The end of a server's log."""

    server: str
    """Whose."""
    lines: tuple[StderrLine, ...]
    """Oldest first."""
    bytes: int
    """All that it ever wrote, kept or not."""


def servers_list(service: Service, _params: NoParams, _caller: Caller) -> ServerList:
    return ServerList(service.fleet.view().servers)


def servers_get(service: Service, params: ServerParams, _caller: Caller) -> ServerDetail:
    return service.fleet.detail(params.server)


async def start(service: Service, params: CommandParams, _caller: Caller) -> ServerView:
    await service.fleet.start_server(params.server, wait=params.wait)
    return service.fleet.summary(params.server)


async def stop(service: Service, params: CommandParams, _caller: Caller) -> ServerView:
    await service.fleet.stop_server(params.server, wait=params.wait)
    return service.fleet.summary(params.server)


async def restart(service: Service, params: CommandParams, _caller: Caller) -> ServerView:
    await service.fleet.restart_server(params.server, wait=params.wait)
    return service.fleet.summary(params.server)


async def enable(service: Service, params: OverrideParams, _caller: Caller) -> ServerView:
    return await _override(service, params, enabled=True)


async def disable(service: Service, params: OverrideParams, _caller: Caller) -> ServerView:
    return await _override(service, params, enabled=False)


async def _override(service: Service, params: OverrideParams, *, enabled: bool) -> ServerView:
    """Remember the operator's wish over what the file says, or forget it; then apply it as a reload would."""
    fleet = service.fleet
    # Refused as a whole while everything stops: a wish that would be remembered and not done is half done.
    find = fleet.startable if enabled else fleet.member
    forget = params.reset and params.server in service.memory.overrides
    if not forget:
        find(params.server)
    # Refused now while the files cannot be used, rather than done on the day when they can.
    await service.reloader.reload(dry_run=True)
    entry = service.loaded.servers.get(params.server)
    if isinstance(entry, BadServer) and not params.reset:
        problems, wish = tuple(map(str, entry.problems)), "enable" if enabled else "disable"
        sentence = f"cannot {wish} server {params.server}: its entry is wrong and never was right; correct it"
        raise BadConfig(f"{sentence}: {'; '.join(problems)}", problems=problems)
    if params.reset:
        service.memory.forget_override(params.server)
    else:
        service.memory.override(params.server, enabled=enabled)
    await (service.reloader.settle(params.server) if params.wait else service.reloader.begin())
    # One that was disabled is started by the reload.
    if enabled and not params.reset and fleet.member(params.server).enabled:
        await fleet.start_server(params.server, wait=params.wait)
    if forget and params.server not in fleet.members:
        return not_configured(params.server, now=time.time())
    return fleet.summary(params.server)


def logs(service: Service, params: LogParams, caller: Caller) -> LogResult:
    member = service.fleet.member(params.server)
    if params.follow:
        offer = caller.follow("notifications/log")

        def hear(news: News) -> None:
            if isinstance(news, LogEvent) and news.server == params.server:
                offer(msgspec.json.encode(news))

        caller.on_leave(service.bus.subscribe(hear))
    lines = tuple(StderrLine(line.at, line.text) for line in member.log.tail(params.lines))
    return LogResult(params.server, lines, member.log.total_bytes)
