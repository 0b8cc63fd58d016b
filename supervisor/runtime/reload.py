"""Reading the configuration again and making it so, without anyone noticing who is not concerned.

One task does all reloads, one after the other, so that nobody who asks for one can leave it half done.
Those who ask while one runs share the next. Everything is parsed before anything is done; a file that
cannot be used, or is suddenly gone, changes nothing. A server whose launch changed is replaced
make-before-break: the new one is ready and listed before the old one stops taking calls, and if the new
one fails, the old one stays.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from supervisor.core.phases import Backoff, Idle, Ready, Stopped, StopRequested, Unavailable
from supervisor.core.plan import Kind, diff
from supervisor.core.problems import Problem
from supervisor.core.servers import BadServer, Loaded, ServerSpec
from supervisor.core.spec import SupervisorSettings
from supervisor.errors import BadConfig, SupervisorError
from supervisor.runtime.bus import Bus, ReloadEvent
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.member import Member

logger = logging.getLogger(__name__)

_FIXED = ("socket", "http", "max_line_bytes")
"""Settings that only a new daemon takes up."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did, or would do."""

    plan: dict[str, Kind]
    results: dict[str, str]
    """For each server that something was done to: "ok", or why it failed."""
    problems: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Round:
    """One reload, and everybody who waits for it."""

    asked: anyio.Event = field(default_factory=anyio.Event)
    done: anyio.Event = field(default_factory=anyio.Event)
    outcome: Callable[[], Reloaded] | None = None
    """Answers or raises, for each who waits; None when the daemon stopped first."""

    async def result(self) -> Reloaded:
        self.asked.set()
        await self.done.wait()
        if self.outcome is None:
            raise SupervisorError("cannot reload: the daemon is stopping; its next start reads the files")
        return self.outcome()


class Reloader:
    """Brings the fleet to what the configuration says now."""

    def __init__(self, fleet: Fleet, loaded: Loaded, read: Callable[[], Loaded], bus: Bus) -> None:
        self._fleet, self._read, self._bus = fleet, read, bus
        self.loaded = loaded
        """The last good configuration."""
        self.failure: tuple[str, ...] = ()
        """What was wrong with the files when they were last read and could not be used."""
        self.seen: Mapping[str, str] = loaded.read
        """Every file of the last reading, good or bad, with the fingerprint of what was there."""
        self._next = _Round()

    async def run(self) -> None:
        """Reload whenever somebody asks for it, until cancelled."""
        current = self._next
        try:
            while True:
                await current.asked.wait()
                self._next = _Round()
                current.outcome = await self._outcome_of_reload()
                current.done.set()
                current = self._next
        finally:
            current.done.set()
            self._next.done.set()

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Read the files and apply them; answers when that is done.

        Raises:
            BadConfig: a file cannot be used; nothing was changed.
        """
        return self._planned() if dry_run else await self._next.result()

    def _planned(self) -> Reloaded:
        loaded = self._read()
        problems = self._unusable(loaded)
        if problems:
            raise _refusal(problems)
        return Reloaded(self._plan(loaded), {}, tuple(map(str, loaded.problems)))

    async def _outcome_of_reload(self) -> Callable[[], Reloaded]:
        try:
            loaded = self._read()
            self.seen = loaded.read
            refused = self._unusable(loaded)
            if refused:
                self._refuse(refused)
                return lambda: _raise(_refusal(refused))
            done = await self._take_over(loaded)
        except Exception:  # the boundary: a bug in a reload costs that reload, not the daemon
            logger.exception("cannot finish the reload")
            sentence = "cannot finish the reload: an internal error, see the log"
            return lambda: _raise(SupervisorError(sentence))
        return lambda: done

    def _plan(self, loaded: Loaded) -> dict[str, Kind]:
        return diff({name: member.spec for name, member in self._fleet.members.items()}, loaded.servers)

    def _unusable(self, loaded: Loaded) -> tuple[str, ...]:
        """Why nothing of this may be applied; empty when it may."""
        if loaded.unreadable:
            return tuple(map(str, loaded.problems))
        there = {file.path for file in self.loaded.files if file.found}
        reason = "is gone; put it back, or write {} into it for no servers"
        gone = [file.path for file in loaded.files if file.path in there and not file.found]
        return tuple(str(Problem(path, "", reason)) for path in gone)

    def _refuse(self, problems: tuple[str, ...]) -> None:
        self.failure = problems
        self._bus.publish(ReloadEvent(time.time(), ok=False, plan={}, problems=problems))
        logger.error("reload refused, everything stays as it is: %s", "; ".join(problems))

    async def _take_over(self, loaded: Loaded) -> Reloaded:
        plan, problems = self._plan(loaded), tuple(map(str, loaded.problems))
        _warn_of_fixed(self.loaded.settings, loaded.settings)
        self.loaded, self.failure = loaded, ()
        results = await self._apply(plan, loaded)
        failed = {name: result for name, result in results.items() if result != "ok"}
        self._bus.publish(ReloadEvent(time.time(), not failed, dict(plan), problems))
        changes = ", ".join(f"{kind} {name}" for name, kind in plan.items() if kind != "unchanged")
        logger.info("reloaded: %s", changes or "nothing changed")
        for name, result in failed.items():
            logger.error("%s: reload failed: %s", name, result)
        return Reloaded(plan, results, problems)

    async def _apply(self, plan: dict[str, Kind], loaded: Loaded) -> dict[str, str]:
        results: dict[str, str] = {}
        fleet, settings = self._fleet, loaded.settings
        fleet.agents = loaded.agents
        fleet.listing.separator, fleet.listing.policy = settings.tool_separator, settings.policy
        fleet.listing.changed("the configuration was read again")
        for member in fleet.members.values():
            member.desk.max_result_bytes = settings.max_result_bytes

        async def change(name: str, kind: Kind) -> None:
            results[name] = await self._change(kind, fleet.members.get(name), loaded.servers.get(name))

        async with anyio.create_task_group() as tg:
            for name, kind in plan.items():
                if kind != "unchanged":
                    tg.start_soon(change, name, kind)
        return dict(sorted(results.items()))

    async def _change(self, kind: Kind, before: Member | None, after: ServerSpec | BadServer | None) -> str:
        match kind:
            case "retune":
                assert before is not None
                assert isinstance(after, ServerSpec)
                before.retune(after)
                return "ok"
            case "replace":
                assert before is not None
                assert after is not None
                return await self._replace(before, after)
            case _:
                return await self._exchange(before, after)

    async def _exchange(self, before: Member | None, after: ServerSpec | BadServer | None) -> str:
        """Put a server in the place of one that does not run, or of one that shall not run any more."""
        if before is not None:
            self._leave(before)
        if after is None:
            return "ok"
        member = self._new_member(after)
        self._fleet.members[member.name] = member
        if not member.enabled:
            return "ok"
        self._fleet.begin(member)
        return await self._outcome(member)

    async def _replace(self, before: Member, after: ServerSpec | BadServer) -> str:
        if isinstance(after, BadServer) or after.entry.exclusive or not before.ready:
            if before.ready:
                await before.drain()
            await before.actor.tell(StopRequested())
            await before.actor.reach(Stopped)
            return await self._exchange(before, after)
        member = self._new_member(after)
        self._fleet.begin(member)
        loser = member
        try:
            outcome = await self._outcome(member)
            if outcome != "ok":
                return f"{outcome}; the old run stays"
            self._fleet.members[member.name] = member
            self._fleet.listing.changed(f"{member.name}: replaced")
            loser = before
            return outcome
        finally:
            # Also when the daemon stops meanwhile: the fleet stops those who retire as well.
            self._fleet.retire(loser)

    def _new_member(self, spec: ServerSpec | BadServer) -> Member:
        member = self._fleet.new_member(spec)
        member.desk.max_result_bytes = self.loaded.settings.max_result_bytes
        self._fleet.host(member)
        return member

    def _leave(self, member: Member) -> None:
        """Take a server out of the fleet; its calls under way may finish."""
        del self._fleet.members[member.name]
        self._fleet.listing.changed(f"{member.name}: removed")
        self._fleet.retire(member)

    async def _outcome(self, member: Member) -> str:
        state = await member.actor.reach(Ready, Idle, Unavailable, Backoff)
        return "ok" if isinstance(state.phase, Ready | Idle) else member.reason


def _refusal(problems: tuple[str, ...]) -> BadConfig:
    return BadConfig(f"cannot use the configuration: {'; '.join(problems)}", problems=problems)


def _raise(error: SupervisorError) -> Reloaded:
    raise error


def _warn_of_fixed(before: SupervisorSettings, after: SupervisorSettings) -> None:
    changed = [name for name in _FIXED if getattr(before, name) != getattr(after, name)]
    names = [SupervisorSettings.model_fields[name].alias or name for name in changed]
    if names:
        logger.warning("restart the daemon to apply the changed settings: %s", ", ".join(names))
