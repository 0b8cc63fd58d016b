"""All servers: their tasks, their commands, and the way from a tool's name to its server.

The fleet starts and stops its members in parallel and owns their tasks. What a member does next is its
actor's; which members there should be is `reload`'s.
"""

import math
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from supervisor.core.agents import Agent, selection
from supervisor.core.catalog import Catalog, Generations, Route, Shelf
from supervisor.core.counters import Counters
from supervisor.core.naming import beginning
from supervisor.core.phases import (
    Backoff,
    Idle,
    KillRequested,
    Ready,
    RestartRequested,
    Starting,
    StartRequested,
    Stopped,
    StopRequested,
    Unavailable,
    Wanted,
)
from supervisor.core.servers import BadServer, Loaded, ServerSpec
from supervisor.core.view import ServerDetail, ServerView, phase_word, shown
from supervisor.errors import Outcome, RefusedByPolicy, ServerUnavailable, UnknownServer, UnknownTool
from supervisor.runtime.actor import Transition
from supervisor.runtime.bus import Bus, LogEvent, TransitionEvent
from supervisor.runtime.calls import Call, CallRequest, Deadlines, Reply
from supervisor.runtime.chronicle import log_transition
from supervisor.runtime.listing import Listing
from supervisor.runtime.member import Member, Shared
from supervisor.runtime.stdio import Host


class FleetView(Struct, frozen=True):
    servers: tuple[ServerView, ...]
    generation: int
    pending: tuple[str, ...]
    """Servers that are still starting, so that the catalog may lack their tools."""


class Fleet:
    """Every configured server."""

    def __init__(self, loaded: Loaded, host: Host, environ: Mapping[str, str], bus: Bus) -> None:
        settings = loaded.settings
        self._bus = bus
        self._deadlines = Deadlines()
        self._tasks: TaskGroup | None = None
        self.retiring: set[Member] = set()
        self.behind: Callable[[str], str | None] = lambda _: None
        """Why a server does not run as its entry says now; None when it does."""
        self.counters = Counters()
        self.agents: Mapping[str, Agent] = loaded.agents
        self.members: dict[str, Member] = {}
        self.listing = Listing(
            self._shelves,
            self._remembered,
            separator=settings.tool_separator,
            policy=settings.policy,
        )
        self._shared = Shared(
            host=host,
            environ=environ,
            deadlines=self._deadlines,
            publish=self._transitioned,
            tools_changed=self._tools_changed,
            arranging=self.listing.arranging,
            log_line=self._log_line,
            resolve=self._resolve,
            counters=self.counters,
            max_line_bytes=settings.max_line_bytes,
            max_result_bytes=settings.max_result_bytes,
        )
        self.members |= {name: self.new_member(spec) for name, spec in sorted(loaded.servers.items())}
        self._awaited = {name for name, member in self.members.items() if member.enabled}
        """Servers that were, or will be, asked to come up, and have not yet begun to."""

    # Tasks.

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Have the members' tasks running; stop everything on the way out."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._deadlines.run)
            self._tasks.start_soon(self.listing.tell, self._bus)
            for member in self.members.values():
                self.host(member)
            try:
                yield
            finally:
                # Cancelled with us, the actors hear nothing any more; each run clears itself away.
                if anyio.current_effective_deadline() > -math.inf:
                    with anyio.CancelScope(shield=True):
                        await self.stop()
                self._tasks.cancel_scope.cancel()

    def new_member(self, spec: ServerSpec | BadServer) -> Member:
        return Member(spec, self._shared)

    def host(self, member: Member) -> None:
        """Give the member's actor a task."""
        assert self._tasks is not None
        self._tasks.start_soon(member.run, name=f"actor of {member.name}")

    def retire(self, member: Member) -> None:
        """Let a member that is no longer wanted finish its calls, then stop it; nobody waits for that."""
        assert self._tasks is not None
        self.retiring.add(member)
        self._tasks.start_soon(self._retire, member, name=f"retirement of {member.name}")

    async def _retire(self, member: Member) -> None:
        await member.drain()
        await member.actor.tell(StopRequested())
        await member.actor.reach(Stopped)
        member.scope.cancel()
        self.retiring.discard(member)

    def start(self) -> None:
        """Ask every enabled server to come up; they do so in parallel."""
        for member in self.members.values():
            self.begin(member)

    def begin(self, member: Member) -> None:
        """Ask a server to come up, if it is enabled."""
        if member.enabled:
            self._awaited.add(member.name)
            member.actor.post(StartRequested())
            if member.shelf is None:
                # A lazy server that nobody has seen yet is started once, to learn its tools.
                member.actor.post(Wanted())

    async def stop(self) -> None:
        """Stop every server, in parallel, and wait until all are gone."""
        members = self._everyone()
        for member in members:
            await member.actor.tell(StopRequested())
        for member in members:
            await member.actor.reach(Stopped)

    def kill(self) -> None:
        """End every server without grace."""
        for member in self._everyone():
            member.actor.post(KillRequested())

    def _everyone(self) -> list[Member]:
        """All members, those on their way out included."""
        return [*self.members.values(), *self.retiring]

    # Commands; each answers when it is so.

    async def start_server(self, name: str, *, wait: bool = True) -> None:
        """Start a server.

        Raises:
            UnknownServer: there is none of that name.
            ServerUnavailable: it did not come up, or is disabled.
        """
        member = self._startable(name)
        await member.actor.tell(StartRequested())
        if member.shelf is None:
            await member.actor.tell(Wanted())  # a lazy one whose tools nobody knows
        if wait:
            await _came_up(member)

    async def restart_server(self, name: str, *, wait: bool = True) -> None:
        """Stop a server and start it again; raises as `start_server`."""
        member = self._startable(name)
        await member.actor.tell(RestartRequested())
        if wait:
            await _came_up(member)

    async def stop_server(self, name: str, *, wait: bool = True) -> None:
        """Stop a server.

        Raises:
            UnknownServer: there is none of that name.
        """
        member = self.member(name)
        member.halted = True
        await member.actor.tell(StopRequested("stopped by an operator"))
        if wait:
            await member.actor.reach(Stopped)

    def _startable(self, name: str) -> Member:
        member = self.member(name)
        if not member.enabled:
            sentence = f"cannot start server {name}: it is disabled; use mcp-supervisor enable {name}"
            raise ServerUnavailable(sentence, server=name, phase="stopped")
        member.halted = False
        return member

    # Looking.

    @property
    def generations(self) -> Generations:
        return self.listing.generations

    @property
    def catalog(self) -> Catalog:
        return self.listing.catalog

    def view(self) -> FleetView:
        servers = tuple(self.summary(name) for name in sorted(self.members))
        return FleetView(servers, self.generations.number, self.starting())

    def starting(self) -> tuple[str, ...]:
        """The servers that are on their way up, or are about to be; the catalog may lack their tools."""
        return tuple(
            name
            for name, member in sorted(self.members.items())
            if member.offer is None
            and (name in self._awaited or isinstance(member.actor.state.phase, Starting))
        )

    def member(self, name: str) -> Member:
        """The server of that name.

        Raises:
            UnknownServer: there is none.
        """
        member = self.members.get(name)
        if member is None:
            known = ", ".join(sorted(self.members)) or "none"
            raise UnknownServer(f"cannot find server {name!r}; the configured ones are: {known}", server=name)
        return member

    def summary(self, name: str) -> ServerView:
        return self.member(name).view(**self._standing(name))

    def _standing(self, name: str) -> dict[str, Any]:
        """What a server does not know of itself."""
        draining = sum(each.desk.pending for each in self.retiring if each.name == name)
        tools = self.catalog.counts.get(name, 0)
        return {"tools": tools, "behind": self.behind(name), "draining": draining}

    def detail(self, name: str) -> ServerDetail:
        """Everything about one server.

        Raises:
            UnknownServer: there is none of that name.
        """
        member = self.member(name)
        hidden = tuple(shown(entry) for entry in self.catalog.left_out if entry.server == name)
        return member.detail(hidden, **self._standing(name))

    # Calling.

    def selection(self, agent: str | None, tools: tuple[str, ...] | None) -> Callable[[str], bool] | None:
        """Which public names whoever asks may see and call; None for all.

        Raises:
            InvalidParams: there is no such agent.
        """
        return None if agent is None and tools is None else selection(self.agents, agent, tools)

    def route(self, name: str) -> Route:
        """Where a call of that public name goes.

        Raises:
            UnknownTool: no server has, or had, such a tool.
            RefusedByPolicy: there is one, and it may not be called.
            ServerUnavailable: there was one, and its server cannot answer now.
        """
        route = self.listing.find(name)
        if route is not None:
            return route
        hidden = self.listing.why_not(name)
        if hidden is not None:
            sentence = f"cannot call {name}: {hidden.reason}"
            raise RefusedByPolicy(sentence, server=hidden.server, outcome=Outcome.REJECTED)
        former = self.listing.former(name)
        if former is None:
            sentence = f"cannot find tool {name!r}; see mcp-supervisor tools"
            raise UnknownTool(sentence, outcome=Outcome.REJECTED)
        if not self.members[former.server].may_return:
            raise self.members[former.server].unavailable()
        return former

    def call(self, request: CallRequest, reply: Reply, client: Hashable) -> Call:
        """Hand a tool call to its server's desk; `reply` hears how it ends.

        Raises:
            SupervisorError: it was not sent, and why.
        """
        if request.agent is not None or request.tools is not None:
            self._check_selection(request)
        route = self.listing.current.get(request.name)
        if route is None or (route.approval == "confirm" and not request.approved):
            route = self._way(request)
        member = self.members[route.server]
        call = Call(member.desk, request, reply, client, route.tool_json)
        if not member.desk.submit(call):
            member.wake()
        return call

    def _way(self, request: CallRequest) -> Route:
        """Where a call may go; without a tool while its server has yet to list it."""
        try:
            route = self.route(request.name)
        except UnknownTool:
            member = self._might_list(request.name)
            if member is None:
                raise
            return Route(member.name, "", b"", "auto")
        _check_approval(request, route)
        return route

    def _check_selection(self, request: CallRequest) -> None:
        allowed = self.selection(request.agent, request.tools)
        if allowed is not None and not allowed(request.name):
            sentence = f"cannot call {request.name}: it is not among the tools of this agent"
            raise RefusedByPolicy(sentence, outcome=Outcome.REJECTED)

    def _might_list(self, name: str) -> Member | None:
        """The server that is still coming up for the first time and may have that tool."""
        for member in self.members.values():
            stem = beginning(member.prefix, self.listing.separator)
            if member.shelf is None and member.may_return and name.startswith(stem):
                return member
        return None

    def _resolve(self, call: Call) -> bytes | None:
        """The tool of a call that came before it was listed; None when the call waits elsewhere from now on.

        Its name does not tell whose it is before somebody lists it: `a_b_c` may be of `a` or of `a_b`.
        """
        try:
            route = self.route(call.request.name)
        except UnknownTool:
            other = self._might_list(call.request.name)
            if other is None or other.name == call.server:
                raise
            other.desk.adopt([call])
            return None
        _check_approval(call.request, route)
        if route.server != call.server:
            self.members[route.server].desk.adopt([call])
            return None
        return route.tool_json

    def _place(self, member: Member) -> None:
        """Give calls to a server that has just listed their tool, when they wait for another to do so."""
        for other in self.members.values():
            if other is not member and other.shelf is None and other.desk.queued:
                other.desk.hand_over(lambda call: self.listing.find(call.request.name) is not None)

    # What members report.

    def _shelves(self) -> Iterable[Shelf]:
        return [shelf for member in self.members.values() if (shelf := member.offer) is not None]

    def _remembered(self) -> Iterable[Shelf]:
        """What servers had that cannot answer now."""
        members = self.members.values()
        return [each.shelf for each in members if each.shelf is not None and each.offer is None]

    def _tools_changed(self, member: Member, cause: str) -> None:
        self.listing.changed(f"{member.name}: {cause}")
        self._place(member)

    def _log_line(self, member: Member, at: float, text: str) -> None:
        if self._bus.heard:
            self._bus.publish(LogEvent(at, member.name, text))

    def _transitioned(self, member: Member, transition: Transition) -> None:
        state, current = transition.after, self.members.get(member.name) is member
        self._awaited.discard(member.name)
        self._count(member, transition)
        if current:
            before, phase = phase_word(transition.before.phase), phase_word(state.phase)
            reason = transition.reason
            news = TransitionEvent(time.time(), member.name, before, phase, member.word, reason, state.run)
            self._bus.publish(news)
        log_transition(member, transition, current=current)

    def _count(self, member: Member, transition: Transition) -> None:
        tally = self.counters.server(member.name)
        before, after = transition.before, transition.after
        tally.moved(before, after, end=transition.end, at=transition.at, source=id(member))
        self.gauge(member)

    def gauge(self, member: Member) -> None:
        """Bring the server's meters up to what its run has done so far."""
        tally, run = self.counters.server(member.name), (id(member), member.actor.state.run)
        tally.noise.read(run, member.noise)
        tally.stderr_bytes.read(id(member), member.log.total_bytes)


async def _came_up(member: Member) -> None:
    state = await member.actor.reach(Ready, Idle, Unavailable, Backoff, Stopped)
    if not isinstance(state.phase, Ready | Idle):
        raise ServerUnavailable(
            f"cannot bring up server {member.name}: {member.reason}; see mcp-supervisor why {member.name}",
            **member.account(Outcome.NOT_SENT),
        )


def _check_approval(request: CallRequest, route: Route) -> None:
    if route.approval == "confirm" and not request.approved:
        sentence = f"cannot call {request.name} without approval; ask the user, then send approved: true"
        raise RefusedByPolicy(sentence, server=route.server, outcome=Outcome.REJECTED)
