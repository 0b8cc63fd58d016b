"""One task owns one server.

The actor is the only writer of its server's state. It waits for the next event or for the state's
deadline, asks `core.lifecycle.step` what follows, and performs the effects. It never awaits I/O in its
loop: a run lives in a child task and reports back through the inbox, so a stop is heard at any time.
"""

import contextlib
import logging
import math
import random
from collections.abc import Callable
from typing import Protocol, assert_never

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec import Struct

from supervisor.core.lifecycle import step
from supervisor.core.phases import (
    Abort,
    Close,
    DeadlinePassed,
    Effect,
    End,
    Ended,
    Event,
    Open,
    Parted,
    Phase,
    Policy,
    ServerState,
)
from supervisor.logs import about

logger = logging.getLogger(__name__)


class Run(Protocol):
    """One try at having the server up."""

    async def live(self, report: Callable[[Event], None]) -> End:
        """Bring the server up; report `Launched` at its begin, `Opened` once it answers, `Lost` at its loss.

        Returns how it ended; all resources of the run are gone when this returns or raises. One that reports
        `Parted` is followed by another run while it lasts.
        """
        ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Transition(Struct, frozen=True):
    server: str
    before: ServerState
    after: ServerState
    reason: str
    at: float
    end: End | None = None
    """How the run ended, where the transition says that it did."""


class _Letter(Struct, frozen=True):
    event: Event
    read: anyio.Event | None = None


class ServerActor:
    """The owner of one server."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        new_run: Callable[[int], Run],
        publish: Callable[[Transition], None],
        *,
        used_at: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.name = name
        self.state = ServerState()
        self.policy = policy
        self._new_run = new_run
        self._publish = publish
        self._used_at = used_at
        self._runs: dict[int, Run | None] = {}
        """Those that are not gone; None where nobody has asked for one yet."""
        self._changed = anyio.Event()
        self._outbox, self._inbox = anyio.create_memory_object_stream[_Letter](math.inf)

    def post(self, event: Event) -> None:
        """Hand the actor an event; never blocks. What comes after the actor's end is dropped."""
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._outbox.send_nowait(_Letter(event))

    async def tell(self, event: Event) -> None:
        """Hand the actor an event and wait until it has been applied, though perhaps not yet carried out."""
        read = anyio.Event()
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._outbox.send_nowait(_Letter(event, read))
            await read.wait()

    async def reach(self, *phases: type[Phase]) -> ServerState:
        """Wait until the server is in one of `phases`, and stays there long enough to be seen."""
        return await self.until(lambda state: isinstance(state.phase, phases))

    async def until(self, reached: Callable[[ServerState], bool]) -> ServerState:
        """Wait until phase and goal are as wanted, and stay so long enough to be seen."""
        while not reached(self.state):
            await self._changed.wait()
        return self.state

    async def run(self) -> None:
        """Serve events until cancelled."""
        async with self._outbox, self._inbox, anyio.create_task_group() as tg:
            try:
                while True:
                    letter = await self._next_letter()
                    self._apply(letter.event, tg)
                    if letter.read is not None:
                        letter.read.set()
            finally:
                self._leave()

    def _leave(self) -> None:
        """Take no more letters, and let nobody wait for one that will not be read."""
        self._outbox.close()
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                letter = self._inbox.receive_nowait()
                if letter.read is not None:
                    letter.read.set()

    async def _next_letter(self) -> _Letter:
        deadline = self.state.deadline
        if deadline is None:
            return await self._inbox.receive()
        with anyio.move_on_after(deadline - anyio.current_time()):
            return await self._inbox.receive()
        await anyio.lowlevel.checkpoint()  # what a deadline costs, and what follows from it, are two turns
        return _Letter(DeadlinePassed(self._used_at()))

    def _apply(self, event: Event, tg: TaskGroup) -> None:
        before, now = self.state, anyio.current_time()
        result = step(before, event, self.policy, now=now, jitter=random.random())
        self.state = result.state
        try:
            for effect in result.effects:
                self._perform(effect, tg)
            end = _end_of_a_run(before, event)
            if end is not None or type(before.phase) is not type(result.state.phase):
                self._publish(Transition(self.name, before, result.state, result.reason, now, end))
        except Exception:
            # One server's bug is not another's: its deadlines still pass, so it is killed or tried again.
            logger.exception("%s: cannot carry out what follows %s", self.name, event, extra=about(self.name))
        if type(before.phase) is not type(result.state.phase) or before.goal is not result.state.goal:
            self._changed.set()
            self._changed = anyio.Event()

    def _perform(self, effect: Effect, tg: TaskGroup) -> None:
        match effect:
            case Open(run=number):
                self._runs[number] = None
                tg.start_soon(self._live, number, name=f"{self.name} run {number}")
            case Close(run=number):
                if number in self._runs:
                    self._run(number).close()
            case Abort(run=number):
                if number in self._runs:
                    self._run(number).abort()
            case _:
                assert_never(effect)

    def _run(self, number: int) -> Run:
        """The run of that number, made by whoever needs it first: mostly its task, in a turn of its own."""
        run = self._runs[number]
        if run is None:
            run = self._runs[number] = self._new_run(number)
        return run

    async def _live(self, number: int) -> None:
        try:
            run = self._run(number)
            # What making it took and what it does first are two turns of the loop, with others in between.
            await anyio.lowlevel.checkpoint()
            end = await run.live(self.post)
        except Exception as exc:
            logger.exception(
                "%s: run %d failed in a way nobody thought of", self.name, number, extra=about(self.name)
            )
            end = End(f"{type(exc).__name__}: {exc}")
        del self._runs[number]
        self.post(Ended(number, end))


def _end_of_a_run(before: ServerState, event: Event) -> End | None:
    """How the run ended that was the server's until now; None when the event does not say that it did."""
    if isinstance(event, Parted | Ended) and event.run == before.run and event.run not in before.lingering:
        return event.end
    return None
