"""Reading the configuration again and making it so, without anyone noticing who is not concerned.

Everything is parsed before anything is done; a file that cannot be used, or is suddenly gone, changes
nothing. Each server that differs is changed in a task of its own (`runtime.change`), so that a slow start
delays nobody else, and a reload that comes meanwhile turns only those changes round which it does not want:
the last state wins. Who asks again for what is under way shares its answer. Whoever leaves, nothing is left
half done.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct, field

from supervisor.core.layers import GUARDS
from supervisor.core.plan import Kind, Spec, change, diff
from supervisor.core.problems import Problem
from supervisor.core.reading import spelling
from supervisor.core.servers import Loaded, ServerSpec
from supervisor.core.spec import SupervisorSettings
from supervisor.errors import BadConfig, SupervisorError
from supervisor.logs import about
from supervisor.runtime.bus import Bus, ReloadEvent
from supervisor.runtime.change import OK, Change
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.member import Member

logger = logging.getLogger(__name__)

_FIXED = ("socket", "http", "max_line_bytes")
"""Settings that only a new daemon takes up."""
_INTERNAL = "cannot finish the reload: an internal error, see the log"
_STOPPING = "cannot reload: the daemon is stopping; its next start reads the files"


class Reloaded(Struct, frozen=True):
    """What a reload did, or would do."""

    plan: dict[str, Kind]
    results: dict[str, str]
    """For each server that something was done to: "ok", or why it failed."""
    problems: tuple[str, ...]


Answer = Callable[[], Reloaded]
"""Answers or raises, for each who waits."""


class _Round(Struct, eq=False):
    """One reload, and everybody who waits for it."""

    asked: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)
    """The files were read, and everything that follows from them is under way."""
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None
    """None until it is done, and then still when the daemon stopped first."""

    def end(self) -> None:
        self.begun.set()
        self.done.set()

    async def result(self) -> Reloaded:
        self.asked.set()
        await self.done.wait()
        if self.answer is None:
            raise SupervisorError(_STOPPING)
        return self.answer()


class Reloader:
    """Brings the fleet to what the configuration says now."""

    def __init__(self, fleet: Fleet, loaded: Loaded, read: Callable[[Loaded], Loaded], bus: Bus) -> None:
        self._fleet, self._bus = fleet, bus
        fleet.behind = self._lag
        self._read = read
        """Reads the files; what is in force stays where they are wrong."""
        self.loaded = loaded
        """The last good configuration."""
        self.failure: tuple[str, ...] = ()
        """What was wrong with the files when they were last read and could not be used."""
        self.seen: Mapping[str, str] = loaded.read
        """Every file of the last reading, good or bad, with the fingerprint of what was there."""
        self.announced: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered for as long as a reload lasts."""
        self._next = _Round()
        self._latest: _Round | None = None
        """The one that brings the fleet to `loaded`, if any does."""
        self._changes: dict[str, Change] = {}
        """Those under way."""
        self._failed: dict[str, str] = {}
        """How the last change of a server ended that failed."""

    async def run(self) -> None:
        """Reload whenever somebody asks for it, until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._next.asked.wait()
                    current, self._next = self._next, _Round()
                    tasks.start_soon(self._serve, current, tasks)
                    # The last to read is the last to apply; who asks meanwhile gets the next reading.
                    await current.begun.wait()
        finally:
            self._next.end()

    # Asking.

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Read the files and apply them; answers when that is done.

        Raises:
            BadConfig: a file cannot be used; nothing was changed.
        """
        return await (self._planned() if dry_run else self._next.result())

    async def begin(self) -> None:
        """Read the files and begin to apply them; returns when that is under way. Raises as `reload`."""
        current = self._next
        current.asked.set()
        await current.begun.wait()
        if current.answer is not None:
            current.answer()

    async def settle(self, server: str) -> None:
        """Read the files and apply them, and wait for what that does to this server. Raises as `reload`."""
        await self.begin()
        if server in self._changes:
            await _result(self._changes[server])

    @property
    def behind(self) -> dict[str, str]:
        """The servers that do not run as the configuration says, because that failed, with the reason."""
        found = ((name, self._unreached(name)) for name in self._failed)
        return {name: reason for name, reason in found if reason is not None}

    def _unreached(self, name: str) -> str | None:
        """How the last change of a server failed, unless it is as wanted all the same."""
        reason, member = self._failed.get(name), self._fleet.members.get(name)
        if reason is None or member is None:
            return None
        return None if change(member.spec, self.loaded.servers.get(name)) == "unchanged" else reason

    def _lag(self, name: str) -> str | None:
        """Why a server does not run as its entry says now."""
        wanted = self.loaded.servers.get(name)
        if isinstance(wanted, ServerSpec) and wanted.problems:
            return f"its entry is wrong: {'; '.join(map(str, wanted.problems))}"
        return self._unreached(name)

    # Looking.

    async def _look(self) -> Loaded:
        """What the files say, read beside everything else that goes on: there may be thousands of entries."""
        return await run_sync(self._read, self.loaded, abandon_on_cancel=True)

    async def _planned(self) -> Reloaded:
        loaded = await self._look()
        problems = self._unusable(loaded)
        if problems:
            raise _refusal(problems)
        return Reloaded(self._plan(loaded), {}, tuple(map(str, loaded.problems)))

    def _plan(self, loaded: Loaded) -> dict[str, Kind]:
        """What has to be done, or is being done, to each server."""
        plan = diff({name: member.spec for name, member in self._fleet.members.items()}, loaded.servers)
        for each in self._changes.values():
            if each.leads_to(loaded.servers.get(each.name)):
                plan[each.name] = each.kind
        return plan

    def _unusable(self, loaded: Loaded) -> tuple[str, ...]:
        """Why nothing of this may be applied; empty when it may."""
        there = {file.path for file in self.loaded.files if file.found}
        # A list of servers that is none is no wish to have none; a guard that never was good guards nothing.
        if (
            loaded.unreadable
            or loaded.lost - {"supervisor"}
            or (not there and loaded.wrong_settings & GUARDS)
        ):
            return tuple(map(str, loaded.problems))
        reason = "is gone; put it back, or write {} into it for no servers"
        gone = [file.path for file in loaded.files if file.path in there and not file.found]
        return tuple(str(Problem(path, "", reason)) for path in gone)

    # Doing.

    async def _serve(self, current: _Round, tasks: TaskGroup) -> None:
        try:
            with self.announced():
                current.answer = await self._answer(current, tasks)
        finally:
            current.end()

    async def _answer(self, current: _Round, tasks: TaskGroup) -> Answer | None:
        try:
            loaded = await self._look()
            self.seen = loaded.read
            refused = self._unusable(loaded)
            if refused:
                self._refuse(refused)
                return lambda: _raise(_refusal(refused))
            latest = self._latest
            if latest is not None and not latest.done.is_set() and loaded == self.loaded and not self.failure:
                current.begun.set()
                await latest.done.wait()
                return latest.answer
            self._latest = current
            plan = self._take_over(loaded, tasks)
            current.begun.set()
            done = await self._outcome(plan, loaded)
        except Exception:  # the boundary: a bug in a reload costs that reload, not the daemon
            logger.exception("cannot finish the reload")
            return lambda: _raise(SupervisorError(_INTERNAL))
        return lambda: done

    def _refuse(self, problems: tuple[str, ...]) -> None:
        self.failure = problems
        self._bus.publish(ReloadEvent(time.time(), ok=False, plan={}, problems=problems, refused=True))
        logger.error("reload refused, everything stays as it is: %s", "; ".join(problems))

    def _take_over(self, loaded: Loaded, tasks: TaskGroup) -> dict[str, Kind]:
        """Have everything changed that is not as wanted; returns what that is."""
        plan = self._plan(loaded)
        _tell_what_is_new(self.loaded, loaded)
        _warn_of_fixed(self.loaded.settings, loaded.settings)
        self.loaded, self.failure = loaded, ()
        self._tune(loaded)
        for name, kind in plan.items():
            wanted = loaded.servers.get(name)
            if name in self._changes:
                self._changes[name].want(wanted, kind)
            elif kind != "unchanged":
                begun = Change(name, kind, wanted, fleet=self._fleet, new_member=self._new_member)
                self._changes[name] = begun
                tasks.start_soon(self._carry_out, begun, name=f"change of {name}")
        return plan

    def _tune(self, loaded: Loaded) -> None:
        """Take up what concerns all servers."""
        fleet, settings = self._fleet, loaded.settings
        fleet.agents = loaded.agents
        fleet.listing.separator, fleet.listing.policy = settings.tool_separator, settings.policy
        fleet.listing.changed("the configuration was read again")
        for member in fleet.members.values():
            member.desk.max_result_bytes = settings.max_result_bytes

    def _new_member(self, spec: Spec) -> Member:
        member = self._fleet.new_member(spec)
        member.desk.max_result_bytes = self.loaded.settings.max_result_bytes
        self._fleet.host(member)
        return member

    async def _carry_out(self, begun: Change) -> None:
        try:
            await begun.run()
        except Exception:  # the boundary: a bug at one server is not another's
            logger.exception("%s: cannot be changed", begun.name, extra=about(begun.name))
            begun.result = _INTERNAL
        finally:
            del self._changes[begun.name]
        self._failed.pop(begun.name, None)
        if begun.result not in {None, OK}:
            self._failed[begun.name] = str(begun.result)

    async def _outcome(self, plan: dict[str, Kind], loaded: Loaded) -> Reloaded:
        """How everything ended that this reload has to do with."""
        concerned = [self._changes[name] for name in plan if name in self._changes]
        ended = {each.name: await _result(each) for each in concerned}
        results = {name: result for name, result in ended.items() if plan[name] != "unchanged"}
        failed = {name: result for name, result in results.items() if result != OK}
        problems = tuple(map(str, loaded.problems))
        self._bus.publish(ReloadEvent(time.time(), not failed and not problems, dict(plan), problems))
        changes = ", ".join(f"{kind} {name}" for name, kind in plan.items() if kind != "unchanged")
        logger.info("reloaded: %s", changes or "nothing changed")
        for name, result in failed.items():
            logger.error("%s: reload failed: %s", name, result, extra=about(name))
        return Reloaded(plan, results, problems)


async def _result(begun: Change) -> str:
    await begun.done.wait()
    if begun.result is None:
        raise SupervisorError(_STOPPING)
    return begun.result


def _refusal(problems: tuple[str, ...]) -> BadConfig:
    return BadConfig(f"cannot use the configuration: {'; '.join(problems)}", problems=problems)


def _raise(error: SupervisorError) -> Reloaded:
    raise error


def _tell_what_is_new(before: Loaded, after: Loaded) -> None:
    """Log what is wrong or odd now and was not when the files were last used."""
    known = {str(each) for each in (*before.problems, *before.notices)}
    for level, found in ((logging.ERROR, after.problems), (logging.WARNING, after.notices)):
        for each in found:
            if str(each) not in known:
                logger.log(level, "config: %s", each)


def _warn_of_fixed(before: SupervisorSettings, after: SupervisorSettings) -> None:
    keys = spelling(SupervisorSettings)
    names = [keys[name] for name in _FIXED if getattr(before, name) != getattr(after, name)]
    if names:
        logger.warning("restart the daemon to apply the changed settings: %s", ", ".join(names))
