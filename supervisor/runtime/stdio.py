"""One run of a stdio server: a child process and the conversation with it.

A run brings the child up, talks with it until it can no longer answer, and returns when nothing of it is
left. It decides nothing about time: how long a start may take and when grace is over is the lifecycle's,
which calls `close` and `abort`.

A server that reads `server/discover` and dies costs a process, not a run: it is started once more and
greeted the old way, and that is remembered. One that dies either way is tried in turn, a process a run. One
that dies before it reads anything dies of something else, and is not started a second time.
"""

import contextlib
import functools
import hashlib
import logging
import signal
from collections.abc import AsyncGenerator, Callable

import anyio
import anyio.lowlevel
from msgspec import Struct, field
from msgspec.structs import replace

from supervisor.core.phases import End, Event, Launched, Lost, Opened, Unhealthy
from supervisor.core.ringlog import RingLog
from supervisor.logs import about
from supervisor.runtime.beside import beside
from supervisor.runtime.conversation import Conversation, Dialect, Listener
from supervisor.runtime.doorstep import Doorstep
from supervisor.runtime.liveness import Subject, Watch
from supervisor.runtime.memory import Memory
from supervisor.runtime.orphans import Orphans
from supervisor.runtime.process import CannotStart, Child, Command, Pipes
from supervisor.runtime.pulse import Pulse, pulse
from supervisor.runtime.session import SessionFailed, WireLost
from supervisor.runtime.spawner import GivenUp, Spawner
from supervisor.runtime.starts import Starts, Turn

logger = logging.getLogger(__name__)

_LAST_RESORT = 5.0
"""Seconds to see a killed group gone before its run is called over anyway; only a stuck kernel needs them."""
_LINGER = 0.05
"""Seconds for which a group may outlive its leader before that is trouble."""

_NEVER_STARTED = End("stopped before it was started")


class Host(Struct, frozen=True):
    """What every run of the daemon shares."""

    orphans: Orphans
    memory: Memory
    spawner: Spawner = field(default_factory=Spawner)
    starts: Starts = field(default_factory=Starts)


class Program(Struct, frozen=True):
    """What a run starts and how it talks with it."""

    server: str
    command: Command
    dialect: Dialect

    @property
    def fingerprint(self) -> str:
        """Names what is launched, without revealing it."""
        launched = "\0".join((*self.command.argv, self.command.cwd or ""))
        return hashlib.sha256(launched.encode(errors="surrogateescape")).hexdigest()[:16]


class StdioRun:
    """One life of a stdio server."""

    def __init__(
        self,
        number: int,
        program: Program,
        host: Host,
        log: RingLog,
        listener: Listener,
        *,
        doubtful: bool = False,
    ) -> None:
        self._number, self._program, self._host, self._doubtful = number, program, host, doubtful
        self._log, self._listener = log, listener
        self._token = host.orphans.token(program.server)
        self._remembered: set[tuple[int, int]] = set()
        self._child: Child | None = None
        self._doorstep: Doorstep | None = None
        self._wish: int | None = None
        """The signal that it was last asked to end with; None while it may live."""
        self._line: anyio.CancelScope | None = None
        """Ends the wait for a turn to start."""
        self._doubt = anyio.CancelScope()
        """Around the wait of a server that has failed again and again, which a call ends."""
        self.talk = self._new_talk()
        """The conversation; a new one when the child had to be started a second time."""

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    async def live(self, report: Callable[[Event], None]) -> End:
        turn = await self._turn()
        if turn is None:
            return _NEVER_STARTED
        try:
            report(Launched(self._number))
            return await self._live_either_way(report, turn)
        except CannotStart as exc:
            return End(
                str(exc.with_traceback(None)), hopeless=True
            )  # whoever raised it keeps it, and us with it
        except OSError as exc:
            exc.with_traceback(None)
            return End(f"cannot start: {exc.strerror or exc}")
        except GivenUp:
            return _NEVER_STARTED
        finally:
            turn.release()
            self.talk.wire.let_go()  # also when there was nothing to talk to
            if self._host.spawner.has_begun(self._token):  # whatever went wrong before it was taken
                await self._end_unheard()

    async def _end_unheard(self) -> None:
        """End the child that was begun for us, and to which nobody has talked."""
        with contextlib.suppress(CannotStart, OSError, GivenUp):
            async with self._spawned() as (child, pipes):
                pipes.close()
                with anyio.CancelScope(shield=True):
                    await self._clear_away(child)

    async def _turn(self) -> Turn | None:
        """Wait until this server may start; None when it is stopped before that."""
        if self._host.spawner.has_begun(self._token):
            return self._host.starts.turn_at_once()
        with anyio.CancelScope() as self._line:
            with self._doubt:
                if self._doubtful and not self._wish:
                    await self._host.starts.doubt()
            turn = None if self._wish else await self._host.starts.turn()
            if turn is not None and self._wish:  # both at once
                turn.release()
                turn = None
            return turn
        return None

    async def _live_either_way(self, report: Callable[[Event], None], turn: Turn) -> End:
        """With a probe or without: both at first, in turn once a server has died of neither or both."""
        memory, fingerprint = self._host.memory, self._program.fingerprint
        if memory.cannot_take_a_probe(fingerprint):
            return await self._live_once(report, turn, probe=False)
        mine = (self._program.server, fingerprint)
        before = memory.silent.pop(mine, None)
        probe = not before
        end = await self._live_once(report, turn, probe=probe)
        if before is None and self._died_of_the_question:
            server = self._program.server
            logger.info("%s: %s when asked server/discover", server, end.detail, extra=about(server))
            self.talk, probe = self._new_talk(), False
            end = await self._live_once(report, turn, probe=probe)
            end = end if self.talk.heard else replace(end, deaths=2)
        if self._died_of_the_question:
            memory.silent[mine] = probe
        elif before is not None and not self.talk.heard:
            memory.silent[mine] = before
        return end

    @property
    def _died_of_the_question(self) -> bool:
        """Whether the child, which is gone, took what it was asked and never said a word."""
        assert self._doorstep is not None
        taken = self._doorstep.untaken < self.talk.sent
        return taken and not self._wish and not self.talk.heard

    def hasten(self) -> None:
        """Somebody waits for this server: have it start as if it had never failed."""
        self._doubt.cancel()

    def close(self) -> None:
        """Close standard input and ask the group to end."""
        self._end_with(signal.SIGTERM)

    def abort(self) -> None:
        """End the group by force."""
        self._end_with(signal.SIGKILL)

    def _end_with(self, number: int) -> None:
        """Leave the line, or end the child; one that is just being started, as soon as it is there."""
        self._wish = number
        self._host.spawner.give_up(self._token)
        if self._line is not None:
            self._line.cancel()
        if self._child is not None:
            self._remember(self._child)
            if number == signal.SIGTERM:
                self._leave_the_doorstep()
                self.talk.hang_up()
            self._child.signal(number)

    def _leave_the_doorstep(self) -> None:
        if self._doorstep is not None:
            self._doorstep.leave()

    def _remember(self, child: Child) -> None:
        """Take note of what is below the child: when that loses its parent and has no token, it is lost."""
        self._remembered |= self._host.orphans.below(child.pid)

    def _new_talk(self) -> Conversation:
        return Conversation(self._program.server, self._program.dialect, self._listener, self._log)

    async def _live_once(self, report: Callable[[Event], None], turn: Turn, *, probe: bool) -> End:
        async with self._spawned() as (child, pipes):
            try:
                with Doorstep(pipes.stdin) as self._doorstep:
                    async with self.talk.over(pipes, since=child.since):
                        if self._wish is not None:  # it came before there was an input to close
                            self._leave_the_doorstep()
                            self.talk.hang_up()
                        return await self._serve(child, report, turn, probe=probe)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._clear_away(child)

    @contextlib.asynccontextmanager
    async def _spawned(self) -> AsyncGenerator[tuple[Child, Pipes]]:
        """A new child that is known as ours until it is reaped."""
        command, orphans = self._token.on(self._program.command), self._host.orphans
        self._child, pipes = await self._host.spawner.start(command, orphans.census)
        with orphans.leading(self._child.pid, since=self._child.began):
            if self._wish is not None:  # it came while there was nobody to signal
                self._child.signal(self._wish)
            try:
                yield self._child, pipes
            finally:
                self._child.reap()
                self._child = None

    async def _clear_away(self, child: Child) -> None:
        """Leave nothing of this child: first the group, then whatever left it."""
        with anyio.move_on_after(_LAST_RESORT):
            if not await child.group_is_empty():
                self._remember(child)
                child.signal(signal.SIGKILL)
                await child.emptied()
            swept = await self._host.orphans.sweep(self._token, leader=child.pid, remembered=self._remembered)
            if swept:
                server = self._program.server
                said = "%s: killed %d processes that had left its group"
                logger.warning(said, server, swept, extra=about(server))

    async def _serve(self, child: Child, report: Callable[[Event], None], turn: Turn, *, probe: bool) -> End:
        """Talk until the child has exited and its group is empty."""
        converse = functools.partial(self._converse, report, turn, probe=probe)
        watch = functools.partial(self._watch_pipes, child, report)
        async with beside(converse, watch):
            return await self._gone(child, report)
        raise AssertionError("unreachable")  # pragma: no cover - nobody cancels the group but from outside

    async def _gone(self, child: Child, report: Callable[[Event], None]) -> End:
        end = await child.exited()
        await self.talk.ended(end)
        await anyio.lowlevel.checkpoint()  # those whose calls that ended come before what is left to do
        with anyio.move_on_after(_LINGER):
            await child.emptied()
            return end
        report(Lost(self._number, f"{end.detail}, but its group lives on"))
        await child.emptied()
        return end

    async def _watch_pipes(self, child: Child, report: Callable[[Event], None]) -> None:
        """A child that lives but can no longer be heard is lost; when it has exited, that tells more."""
        why = await self.talk.broke()
        if not child.has_exited:
            report(Lost(self._number, why))

    async def _converse(self, report: Callable[[Event], None], turn: Turn, *, probe: bool) -> None:
        try:
            await self.talk.open(probe=probe)
        except WireLost:
            return  # the child's exit, or the watch on its pipes, tells the rest
        except SessionFailed as exc:
            report(Lost(self._number, str(exc)))
            return
        if self.talk.session.modern:
            self._host.memory.forget_no_probe(self._program.fingerprint)
        elif self.talk.session.probe_ignored or not probe:
            self._host.memory.remember_no_probe(self._program.fingerprint)
        await anyio.lowlevel.checkpoint()  # whoever calls now comes between the tools and the rest
        report(Opened(self._number))
        self._leave_the_doorstep()
        turn.release()
        async with beside(self.talk.follow_changes):
            await self._watch(report)

    async def _watch(self, report: Callable[[Event], None]) -> None:
        """A child that lives but is not going to answer is unhealthy."""
        talk = self.talk
        subject = Subject(lambda: talk.heard_at, talk.session.probe, self._pulse, talk.session.modern)
        why = await Watch(self._listener.vigil, subject).death()
        report(Unhealthy(self._number, why))
        talk.wire.lose(End(why))

    def _pulse(self) -> Pulse | None:
        return None if self._child is None else pulse(self._child.pid)
