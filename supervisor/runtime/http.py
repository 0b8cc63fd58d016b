"""One run of an HTTP server: a session with it, for as long as it can be had.

A run opens the door, talks until the server is lost or the lifecycle has enough, and returns when no
connection of it is left. When the server is lost the run says so and parts, and calls that are under way
linger until each has ended by itself: one that failed says nothing about the others. The lifecycle may begin
another run beside them, or call `abort`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from supervisor.core.phases import End, Event, Launched, Opened, Parted, Unhealthy
from supervisor.core.ringlog import RingLog
from supervisor.runtime.beside import beside
from supervisor.runtime.certificates import CannotTrust
from supervisor.runtime.conversation import Dialect, Listener
from supervisor.runtime.httpdoor import Patience, Site, open_door
from supervisor.runtime.httpsessions import Sessions
from supervisor.runtime.httptalk import HttpTalk
from supervisor.runtime.liveness import Subject, Watch
from supervisor.runtime.memory import Memory
from supervisor.runtime.session import SessionFailed, WireLost

_CLOSED = End("session closed")


@dataclass(frozen=True, slots=True)
class Remote:
    """What a run reaches and how it talks with it."""

    site: Site
    dialect: Dialect
    patience: Patience = field(default_factory=Patience)
    sessions: Sessions = field(default_factory=Sessions)
    """Those of all its runs."""


class HttpRun:
    """One life of an HTTP server's session."""

    pid = None
    """There is no process of ours."""

    def __init__(self, number: int, remote: Remote, memory: Memory, log: RingLog, listener: Listener) -> None:
        self._number, self._remote, self._memory = number, remote, memory
        self._scope = anyio.CancelScope()
        self._opened = anyio.Event()
        self._vigil = listener.vigil
        self.talk = HttpTalk(remote.site.server, remote.dialect, listener, log, remote.sessions)

    async def live(self, report: Callable[[Event], None]) -> End:
        remote, limit = self._remote, self._remote.dialect.max_line_bytes
        report(Launched(self._number))
        try:
            with self._scope, remote.sessions.joined(self.talk.wire.head):
                async with (
                    open_door(remote.site, remote.patience, limit=limit) as door,
                    self.talk.wire.through(door),
                ):
                    return await self._serve(report)
        except CannotTrust as exc:
            return End(str(exc.with_traceback(None)), hopeless=True)  # its thread keeps it, and us with it
        finally:
            self.talk.wire.let_go()
        return End("connection dropped", hopeless=self.talk.end is not None and self.talk.end.hopeless)

    def close(self) -> None:
        """End the session, unless the server was lost before and what is under way may end first."""
        self.talk.fail(_CLOSED)

    def abort(self) -> None:
        """Drop every connection."""
        self._scope.cancel()

    async def _serve(self, report: Callable[[Event], None]) -> End:
        async with beside(self._hear):
            async with beside(functools.partial(self._converse, report)):
                await self.talk.over()
            await self._part(report)
        end = await self.talk.over()
        self.talk.wire.lose(end)
        await self.talk.wire.farewell()
        return end

    async def _part(self, report: Callable[[Event], None]) -> None:
        """When the server is lost, be over, but for the calls that are under way."""
        end = await self.talk.over()
        if self._opened.is_set() and end is not _CLOSED:
            report(Parted(self._number, end))
            await self.talk.wire.drained(end)

    async def _hear(self) -> None:
        """Listen to the end: what a call says of its progress may come on the server's own stream."""
        await self._opened.wait()
        await self.talk.listen()

    async def _converse(self, report: Callable[[Event], None]) -> None:
        fingerprint = self._remote.site.fingerprint
        probe = not self._memory.cannot_take_a_probe(fingerprint)
        try:
            await self.talk.open(probe=probe)
        except (WireLost, SessionFailed) as exc:
            self.talk.fail(End(str(exc), retry_after=self.talk.wire.asked_pause))
            return
        if self.talk.session.modern:
            self._memory.forget_no_probe(fingerprint)
        elif self.talk.session.probe_ignored:
            self._memory.remember_no_probe(fingerprint)
        self._opened.set()
        report(Opened(self._number))
        doubtful = not probe and not self.talk.session.modern and self._remote.dialect.protocol == "auto"
        async with beside(self.talk.stay, *([self._ask_again] if doubtful else [])):
            await self._watch(report)

    async def _ask_again(self) -> None:
        """See whether a server that once ignored the probe would take one at its next start.

        It may speak both eras by now, and would never refuse to be greeted the old way.
        """
        if await self.talk.session.takes_a_probe():
            self._memory.forget_no_probe(self._remote.site.fingerprint)

    async def _watch(self, report: Callable[[Event], None]) -> None:
        """A server that answers nothing is unhealthy, though connections to it may come about."""
        wire, session = self.talk.wire, self.talk.session
        subject = Subject(lambda: wire.heard_at, session.probe, answers=session.modern)
        report(Unhealthy(self._number, await Watch(self._vigil, subject).death()))
