"""Bringing one server to what is wanted of it, whatever else is wanted of it meanwhile.

A change lasts until the server is what was wanted last, and everybody who waits for it hears how that ended.
A server whose launch changed is replaced make-before-break: the new one is ready and listed before the old
one stops taking calls, and if the new one fails, the old one stays; one that sleeps is no exception. One that
is exclusive is stopped first, and one that an operator has stopped is not started.
What is wanted is not known here; the files are `runtime.reload`'s.
"""

from collections.abc import Callable

import anyio

from supervisor.core.phases import (
    Backoff,
    Idle,
    Opened,
    Ready,
    Stopped,
    Unavailable,
    Wanted,
)
from supervisor.core.plan import Kind, Spec, change
from supervisor.core.servers import ServerSpec
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.member import Member

OK = "ok"
_NO_RUN = -1


class Change:
    """One server on its way to what is wanted of it."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        wanted: Spec | None,
        *,
        fleet: Fleet,
        new_member: Callable[[Spec], Member],
    ) -> None:
        self.name, self.wanted = name, wanted
        self.kind: Kind = kind
        self.done = anyio.Event()
        self.result: str | None = None
        """"ok", or why it is not as wanted; None when the daemon stopped first."""
        self._fleet, self._new_member = fleet, new_member
        self._newcomer: Member | None = None
        """The last member that this change has started."""
        self._overtaken = False
        self._start = anyio.CancelScope()
        """Around the wait for a start, which another wish ends."""

    def leads_to(self, wanted: Spec | None) -> bool:
        """Whether nothing has to begin anew for this to be so in the end."""
        return change(self.wanted, wanted) in {"unchanged", "retune"}

    def want(self, wanted: Spec | None, kind: Kind) -> None:
        """Want something else of the server, which is `kind` for one who looks now."""
        difference = change(self.wanted, wanted)
        if difference == "unchanged":
            return
        self.wanted, self.kind = wanted, kind
        if difference == "retune":
            if self._newcomer is not None:
                assert isinstance(wanted, ServerSpec)
                self._newcomer.retune(wanted)
            return
        self._overtaken = True
        self._start.cancel()

    async def run(self) -> None:
        """Bring the server to what is wanted; what is wanted meanwhile counts."""
        try:
            self.result = await self._bring()
            while self._overtaken:
                self._overtaken = False
                self.result = await self._bring()
        finally:
            self.done.set()

    async def _bring(self) -> str:
        before = self._fleet.members.get(self.name)
        match change(None if before is None else before.spec, self.wanted):
            case "replace":
                assert before is not None
                return await self._replace(before)
            case "add" | "remove":
                return await self._exchange(before)
            case "retune":
                assert before is not None
                assert isinstance(self.wanted, ServerSpec)
                before.retune(self.wanted)
            case "unchanged":
                pass
        if before is not None and before is self._newcomer and before.enabled and not before.halted:
            # It was wanted, then not, then again: the start that was begun goes on.
            return await self._started(before)
        return OK

    async def _exchange(self, before: Member | None) -> str:
        """Put a server in the place of one that does not run, or of one that shall not run any more."""
        member = self._newcomer = None if self.wanted is None else self._new_member(self.wanted)
        if before is not None:
            self._leave(before, member)
        if member is None:
            return OK
        self._fleet.members[self.name] = member
        return await self._started(member) if member.enabled else OK

    def _leave(self, before: Member, successor: Member | None) -> None:
        """Take a server out of the fleet; its calls under way may finish, and those that wait can do so."""
        if successor is not None and successor.enabled:
            successor.expect()
            successor.desk.adopt(before.desk.release())
        del self._fleet.members[self.name]
        self._fleet.listing.changed(f"{self.name}: removed")
        self._fleet.retire(before)

    async def _replace(self, before: Member) -> str:
        if _halted(before):
            return self._set_aside(before)
        if _exclusive(before.spec) or _exclusive(self.wanted) or before.offer is None:
            return await self._exchange(before)
        assert self.wanted is not None
        loser = member = self._newcomer = self._new_member(self.wanted)
        try:
            outcome = await self._started(member)
            if outcome != OK and (self._overtaken or before.may_return):
                return f"{outcome}; the old {'run' if before.ready else 'launch'} stays"
            # It came up, or it failed and there is nothing left that could stay in its place.
            self._fleet.members[self.name] = member
            self._fleet.listing.changed(f"{self.name}: replaced")
            member.desk.adopt(before.desk.release())
            _wake(member)
            if _halted(before):  # meanwhile
                member.halt(before.reason)
            loser = before
            return outcome
        finally:
            # Also when the daemon stops meanwhile: the fleet stops those who retire as well.
            self._fleet.retire(loser)

    def _set_aside(self, before: Member) -> str:
        """Put a server in the place of one that an operator has stopped: it is started by a command only."""
        assert self.wanted is not None
        member = self._newcomer = self._new_member(self.wanted)
        member.halt(before.reason)
        self._leave(before, None)
        self._fleet.members[self.name] = member
        return OK

    async def _started(self, member: Member) -> str:
        """Have the member come up, and say how that went."""
        with anyio.CancelScope() as self._start:
            for predecessor in [each for each in self._fleet.retiring if each.name == self.name]:
                if _exclusive(predecessor.spec) or _exclusive(member.spec):
                    await predecessor.actor.reach(Stopped)
            self._fleet.begin(member)
            _wake(member)
            # A word of a run that never was. When it is read, so is the wish to start, and a server that is
            # stopped then was stopped by somebody.
            await member.actor.tell(Opened(_NO_RUN))
            state = await member.actor.reach(Ready, Idle, Unavailable, Backoff, Stopped)
            return OK if isinstance(state.phase, Ready | Idle) else member.reason
        return "something else was wanted before it came up"


def _wake(member: Member) -> None:
    """Have a server that waits for a call know of those that it took over."""
    if member.desk.queued:
        member.actor.post(Wanted())


def _halted(member: Member) -> bool:
    """Whether an operator has stopped it; that may change whenever we wait."""
    return member.halted


def _exclusive(spec: Spec | None) -> bool:
    return isinstance(spec, ServerSpec) and spec.entry.exclusive
