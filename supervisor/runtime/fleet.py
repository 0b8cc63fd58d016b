"""All servers, their catalog, and the way from a tool's name to its server.

The fleet starts and stops its members in parallel and owns their tasks. The catalog is built when somebody
looks at it after a change, so fifty servers that come up together cost one listing and not fifty.
"""

import logging
from collections.abc import AsyncGenerator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from supervisor.core.catalog import Catalog, Generations, LeftOut, Route, build
from supervisor.core.naming import public_name
from supervisor.core.phases import (
    Backoff,
    KillRequested,
    Ready,
    Starting,
    StartRequested,
    Stopped,
    StopRequested,
    Unavailable,
    Wanted,
)
from supervisor.core.policy import Policy
from supervisor.core.servers import Loaded
from supervisor.core.view import ServerDetail, ServerView, phase_word
from supervisor.errors import Outcome, RefusedByPolicy, UnknownServer, UnknownTool
from supervisor.runtime.actor import Transition
from supervisor.runtime.calls import Call, CallRequest, Deadlines, Reply
from supervisor.runtime.member import Member, Shared
from supervisor.runtime.stdio import Host

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FleetView:
    servers: tuple[ServerView, ...]
    generation: int
    pending: tuple[str, ...]
    """Servers that are still starting, so that the catalog may lack their tools."""


class Fleet:
    """Every configured server."""

    def __init__(self, loaded: Loaded, host: Host, environ: Mapping[str, str]) -> None:
        settings = loaded.settings
        self._separator = settings.tool_separator
        self._policy: Policy = settings.policy
        self._deadlines = Deadlines()
        self._generations = Generations()
        self._former: dict[str, Route] = {}
        """Routes of tools that left the catalog with their server."""
        self._stale = False
        shared = Shared(
            host=host,
            environ=environ,
            deadlines=self._deadlines,
            publish=self._transitioned,
            tools_changed=self._tools_changed,
            resolve=self._resolve,
            max_line_bytes=settings.max_line_bytes,
            max_result_bytes=settings.max_result_bytes,
        )
        self.members = {name: Member(spec, shared) for name, spec in sorted(loaded.servers.items())}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Have the members' tasks running; stop everything on the way out."""
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._deadlines.run)
            for member in self.members.values():
                tg.start_soon(member.actor.run, name=f"actor of {member.name}")
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self.stop()
                tg.cancel_scope.cancel()

    def start(self) -> None:
        """Ask every enabled server to come up; they do so in parallel."""
        for member in self.members.values():
            if member.enabled:
                member.actor.post(StartRequested())
                # A lazy server that nobody has seen yet is started once, to learn its tools.
                member.actor.post(Wanted())

    async def stop(self) -> None:
        """Stop every server, in parallel, and wait until all are gone."""
        for member in self.members.values():
            member.actor.post(StopRequested())
        for member in self.members.values():
            await member.actor.reach(Stopped)

    def kill(self) -> None:
        """End every server without grace."""
        for member in self.members.values():
            member.actor.post(KillRequested())

    # Looking.

    @property
    def generations(self) -> Generations:
        if self._stale:
            self._stale = False
            self._rebuild()
        return self._generations

    @property
    def catalog(self) -> Catalog:
        return self.generations.catalog

    def view(self) -> FleetView:
        counts = self.catalog.counts
        servers = tuple(member.view(counts.get(name, 0)) for name, member in self.members.items())
        return FleetView(servers, self.generations.number, self.starting())

    def starting(self) -> tuple[str, ...]:
        return tuple(
            n for n, member in self.members.items() if isinstance(member.actor.state.phase, Starting)
        )

    def member(self, name: str) -> Member:
        """The server of that name.

        Raises:
            UnknownServer: there is none.
        """
        member = self.members.get(name)
        if member is None:
            known = ", ".join(self.members) or "none"
            raise UnknownServer(f"cannot find server {name!r}; the configured ones are: {known}", server=name)
        return member

    def detail(self, name: str) -> ServerDetail:
        """Everything about one server.

        Raises:
            UnknownServer: there is none of that name.
        """
        member = self.member(name)
        hidden = tuple(shown(entry) for entry in self.catalog.left_out if entry.server == name)
        return member.detail(self.catalog.counts.get(name, 0), hidden)

    # Calling.

    def route(self, name: str) -> Route:
        """Where a call of that public name goes.

        Raises:
            UnknownTool: no server has, or had, such a tool.
            RefusedByPolicy: there is one, and it may not be called.
            ServerUnavailable: there was one, and its server cannot answer now.
        """
        route = self.catalog.route(name)
        if route is not None:
            return route
        hidden = self.catalog.why_not(name)
        if hidden is not None:
            sentence = f"cannot call {name}: {hidden.reason}"
            raise RefusedByPolicy(sentence, server=hidden.server, outcome=Outcome.REJECTED)
        former = self._former.get(name)
        if former is None:
            raise UnknownTool(
                f"cannot find tool {name!r}; see mcp-supervisor tools", outcome=Outcome.REJECTED
            )
        if not self.members[former.server].may_return:
            raise self.members[former.server].unavailable()
        return former

    def call(self, request: CallRequest, reply: Reply, client: Hashable) -> Call:
        """Hand a tool call to its server's desk; `reply` hears how it ends.

        Raises:
            SupervisorError: it was not sent, and why.
        """
        try:
            route = self.route(request.name)
        except UnknownTool:
            member = self._might_list(request.name)
            if member is None:
                raise
            call = Call(member.desk, request, reply, client)
        else:
            _check_approval(request, route)
            member = self.members[route.server]
            call = Call(member.desk, request, reply, client)
            call.tool_json = route.tool_json
        member.submit(call)
        return call

    def _might_list(self, name: str) -> Member | None:
        """The server that is still coming up for the first time and may have that tool."""
        for member in self.members.values():
            if member.shelf is None and member.may_return and name.startswith(self._stem(member)):
                return member
        return None

    def _stem(self, member: Member) -> str:
        """How the public names of a server's tools begin."""
        prefix = member.prefix
        return public_name(prefix, self._separator, "x").removesuffix("x")

    def _resolve(self, call: Call) -> bytes:
        """The tool of a call that came before its server had listed it."""
        route = self.route(call.request.name)
        _check_approval(call.request, route)
        return route.tool_json

    # Changing.

    def _tools_changed(self, _server: str) -> None:
        self._stale = True

    def _rebuild(self) -> None:
        before = self._generations.catalog
        shelves = [shelf for member in self.members.values() if (shelf := member.offer) is not None]
        catalog = build(shelves, separator=self._separator, policy=self._policy)
        self._generations = self._generations.after(catalog)
        self._former |= {
            name: listed.route for name, listed in before.by_name.items() if name not in catalog.by_name
        }

    def _transitioned(self, transition: Transition) -> None:
        self._stale = True
        phase = transition.after.phase
        fields = {"server": transition.server, "phase": phase_word(phase), "run": transition.after.run}
        text, extra = transition.reason, {"fields": fields}
        match phase:
            case Unavailable():
                tail = " | ".join(line.text for line in self.members[transition.server].log.tail(3))
                text = f"{text}; stderr: {tail}" if tail else text
                logger.error("%s: unavailable: %s", transition.server, text, extra=extra)
            case Backoff():
                logger.warning("%s: backoff: %s", transition.server, text, extra=extra)
            case Ready():
                count = len(shelf.tools) if (shelf := self.members[transition.server].offer) else 0
                logger.info("%s: ready: %s, %d tools", transition.server, text, count, extra=extra)
            case _:
                logger.info("%s: %s: %s", transition.server, phase_word(phase), text, extra=extra)


def _check_approval(request: CallRequest, route: Route) -> None:
    if route.approval == "confirm" and not request.approved:
        raise RefusedByPolicy(
            f"cannot call {request.name} without approval; ask the user, then send approved: true",
            server=route.server,
            outcome=Outcome.REJECTED,
        )


def shown(entry: LeftOut) -> Mapping[str, str]:
    """A tool that was left out, in the shape of the control API."""
    return {
        "server": entry.server,
        "tool": entry.tool,
        "name": entry.public_name,
        "cause": entry.cause,
        "reason": entry.reason,
    }
