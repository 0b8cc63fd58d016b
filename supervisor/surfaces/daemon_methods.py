"""Methods about the daemon itself, and its news."""

import time
from typing import Literal

import msgspec

from supervisor import __version__
from supervisor.core.eras import SPOKEN
from supervisor.core.plan import Kind as PlanKind
from supervisor.runtime.bus import KINDS, News
from supervisor.surfaces.service import Caller, Service

Kind = Literal["transition", "catalog", "reload", "log"]


class NoParams(msgspec.Struct, rename="camel", frozen=True):
    """Nothing."""


class Nothing(msgspec.Struct, frozen=True):
    """An empty object."""


class ReloadParams(msgspec.Struct, rename="camel", frozen=True):
    """How to reload."""

    dry_run: bool = False
    """Only say what would be done."""


class SubscribeParams(msgspec.Struct, rename="camel", frozen=True):
    """What to hear of."""

    kinds: tuple[Kind, ...] = ("transition", "catalog", "reload")
    """The kinds of news that are sent from now on; `log` is every line of every server's standard error."""


class FileView(msgspec.Struct, rename="camel", frozen=True):
    """A configuration file."""

    path: str
    """Where it is looked for."""
    found: bool
    """Whether it is there."""


class Counts(msgspec.Struct, rename="camel", frozen=True):
    """How many servers there are."""

    total: int
    """All that are configured."""
    connected: int
    """Those that can answer."""


class Information(msgspec.Struct, rename="camel", frozen=True):
    """The daemon."""

    version: str
    """Its version."""
    pid: int
    """Its process."""
    uptime: float
    """Seconds since it started."""
    socket: str
    """Where it listens."""
    config_files: tuple[FileView, ...]
    """What it reads; later files shadow earlier ones."""
    generation: int
    """The number of the tool listing in force."""
    protocol: tuple[str, ...]
    """The versions of MCP that it speaks with servers, the newest first; `servers/get` has each server's."""
    servers: Counts
    """How many there are."""
    problems: tuple[str, ...]
    """What is wrong with the configuration, and what made the last reload fail."""


class ReloadResult(msgspec.Struct, rename="camel", frozen=True):
    """What a reload did, or would do."""

    generation: int
    """The number of the tool listing afterwards."""
    plan: dict[str, PlanKind]
    """What is done to each server."""
    results: dict[str, str]
    """For each server that something was done to: `ok`, or why it failed; empty after a dry run."""
    problems: tuple[str, ...]
    """What is wrong with the configuration; an entry that is wrong costs only its own server."""


class Subscription(msgspec.Struct, rename="camel", frozen=True):
    """What will be sent."""

    kinds: tuple[Kind, ...]
    """The kinds of news."""
    generation: int
    """The number of the tool listing in force; later ones are told."""


def ping(_service: Service, _params: NoParams, _caller: Caller) -> Nothing:
    return Nothing()


def info(service: Service, _params: NoParams, _caller: Caller) -> Information:
    view = service.fleet.view()
    return Information(
        version=__version__,
        pid=service.pid,
        uptime=time.monotonic() - service.began,
        socket=service.socket,
        config_files=tuple(FileView(file.path, file.found) for file in service.loaded.files),
        generation=view.generation,
        protocol=SPOKEN,
        servers=Counts(
            total=len(view.servers),
            connected=sum(server.state == "connected" for server in view.servers),
        ),
        problems=(
            *service.reloader.failure,
            *(f"{server}: {reason}" for server, reason in sorted(service.reloader.behind.items())),
            *map(str, service.loaded.problems),
        ),
    )


async def reload(service: Service, params: ReloadParams, _caller: Caller) -> ReloadResult:
    done = await service.reloader.reload(dry_run=params.dry_run)
    return ReloadResult(service.fleet.generations.number, done.plan, done.results, done.problems)


def shutdown(service: Service, _params: NoParams, _caller: Caller) -> Nothing:
    service.shut_down()
    return Nothing()


def subscribe(service: Service, params: SubscribeParams, caller: Caller) -> Subscription:
    wanted = tuple(KINDS[kind] for kind in params.kinds)
    offer = caller.follow("notifications/events")

    def hear(news: News) -> None:
        if isinstance(news, wanted):
            offer(msgspec.json.encode(news))

    caller.on_leave(service.bus.subscribe(hear))
    return Subscription(params.kinds, service.fleet.generations.number)
