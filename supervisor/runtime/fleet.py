"""All servers: their tasks and their commands.

The fleet starts and stops its members in parallel and owns their tasks. What a member does next is its
actor's; which members there should be is `reload`'s; the way of a call is `switchboard`'s.
"""

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from supervisor.core.agents import Agent
from supervisor.core.catalog import Catalog, Shelf
from supervisor.core.counters import Counters
from supervisor.core.generations import Generations
from supervisor.core.phases import (
    Backoff,
    Goal,
    Idle,
    KillRequested,
    Ready,
    RestartRequested,
    ServerState,
    Starting,
    StartRequested,
    Stopped,
    StopRequested,
    Unavailable,
    Wanted,
)
from supervisor.core.servers import BadServer, Loaded, ServerSpec
from supervisor.core.view import ServerDetail, ServerView, phase_word, shown
from supervisor.errors import Cancelled, Outcome, ServerUnavailable, UnknownServer
from supervisor.runtime.actor import Transition
from supervisor.runtime.bus import Bus, LogEvent, TransitionEvent
from supervisor.runtime.calls import Deadlines
from supervisor.runtime.chronicle import Chronicle
from supervisor.runtime.listing import Listing
from supervisor.runtime.member import Member, Shared
from supervisor.runtime.stdio import Host
from supervisor.runtime.switchboard import Switchboard


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
        self._chronicle = Chronicle()
        self._tasks: TaskGroup | None = None
        self._stopping = False
        """Nothing is started any more."""
        self.retiring: set[Member] = set()
        self.behind: Callable[[str], str | None] = lambda _: None
        """Why a server does not run as its entry says now; None when it does."""
        self.counters = Counters()
        self.members: dict[str, Member] = {}
        self.listing = Listing(
            self._shelves,
            self._remembered,
            separator=settings.tool_separator,
            policy=settings.policy,
        )
        self._switchboard = Switchboard(self.members, self.listing, loaded.agents)
        self.selection = self._switchboard.selection
        self.route = self._switchboard.route
        self.call = self._switchboard.call
        self._shared = Shared(
            host=host,
            environ=environ,
            deadlines=self._deadlines,
            publish=self._transitioned,
            tools_changed=self._tools_changed,
            arranging=self.listing.arranging,
            log_line=self._log_line,
            resolve=self._switchboard.resolve,
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
            self._tasks.start_soon(self._chronicle.run)
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
        """Ask a server to come up, if it is enabled and nothing stops all of them."""
        if member.enabled and not self._stopping:
            self._awaited.add(member.name)
            member.actor.post(StartRequested())
            if member.shelf is None:
                # A lazy server that nobody has seen yet is started once, to learn its tools.
                member.actor.post(Wanted())

    async def stop(self) -> None:
        """Stop every server for good, in parallel, and wait until all are gone."""
        self._stopping = True
        members = self._everyone()
        for member in members:
            member.refuse_calls("the daemon is stopping")
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
            ServerUnavailable: it did not come up, is disabled, or the whole fleet stops.
        """
        member = self._enabled(name)
        member.press()
        await member.actor.tell(StartRequested())
        if member.shelf is None:
            await member.actor.tell(Wanted())  # a lazy one whose tools nobody knows
        if wait:
            await _came_up(member)

    async def restart_server(self, name: str, *, wait: bool = True) -> None:
        """Stop a server and start it again; raises as `start_server`."""
        member = self._enabled(name)
        await member.actor.tell(RestartRequested())
        member.press()
        if wait:
            await _came_up(member)

    async def stop_server(self, name: str, *, wait: bool = True) -> None:
        """Stop a server.

        Raises:
            UnknownServer: there is none of that name.
            Cancelled: somebody started it again before it had stopped.
        """
        member = self.member(name)
        member.halted = True
        await member.actor.tell(StopRequested("stopped by an operator"))
        if wait:
            state = await member.actor.until(lambda state: state.goal is Goal.UP or _is_stopped(state))
            if not _is_stopped(state):
                raise Cancelled(f"cannot stop server {name}: somebody has started it again", server=name)

    def startable(self, name: str) -> Member:
        """The server of that name, while servers may still be started.

        Raises:
            UnknownServer: there is none of that name.
            ServerUnavailable: the whole fleet stops.
        """
        member = self.member(name)
        if self._stopping:
            sentence = f"cannot start server {name}: the daemon is stopping"
            raise ServerUnavailable(sentence, server=name, phase=phase_word(member.actor.state.phase))
        return member

    def _enabled(self, name: str) -> Member:
        member = self.startable(name)
        if not member.enabled:
            sentence = f"cannot start server {name}: it is disabled; use mcp-supervisor enable {name}"
            raise ServerUnavailable(sentence, server=name, phase="stopped")
        member.halted = False
        return member

    # Looking.

    @property
    def agents(self) -> Mapping[str, Agent]:
        """Who may see and call which tools."""
        return self._switchboard.agents

    @agents.setter
    def agents(self, agents: Mapping[str, Agent]) -> None:
        self._switchboard.agents = agents

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

    # What members report.

    def _shelves(self) -> Iterable[Shelf]:
        return [shelf for member in self.members.values() if (shelf := member.offer) is not None]

    def _remembered(self) -> Iterable[Shelf]:
        """What servers had that cannot answer now."""
        members = self.members.values()
        return [each.shelf for each in members if each.shelf is not None and each.offer is None]

    def _tools_changed(self, member: Member, cause: str) -> None:
        self.listing.changed(f"{member.name}: {cause}")
        self._switchboard.place(member)

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
        self._chronicle.tell(member, transition, current=current)

    def _count(self, member: Member, transition: Transition) -> None:
        tally = self.counters.server(member.name)
        before, after = transition.before, transition.after
        tally.moved(before, after, end=transition.end, at=transition.at, source=id(member))
        self.gauge(member)

    def gauge(self, member: Member) -> None:
        """Bring the server's meters up to what its run has done so far."""
        tally = self.counters.server(member.name)
        tally.noise.read((id(member), member.made), member.noise)
        tally.stderr_bytes.read(id(member), member.log.total_bytes)


def _is_stopped(state: ServerState) -> bool:
    return isinstance(state.phase, Stopped)


async def _came_up(member: Member) -> None:
    state = await member.actor.reach(Ready, Idle, Unavailable, Backoff, Stopped)
    if not isinstance(state.phase, Ready | Idle):
        raise ServerUnavailable(
            f"cannot bring up server {member.name}: {member.reason}; see mcp-supervisor why {member.name}",
            **member.account(Outcome.NOT_SENT),
        )
