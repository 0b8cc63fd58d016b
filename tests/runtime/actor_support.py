"""An actor whose runs follow a script, and all that it tells of them."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import anyio

from supervisor.core.phases import End, Event, Launched, Opened, Policy
from supervisor.runtime.actor import ServerActor, Transition


class ScriptedRun:
    """Opens at once, unless it is silent; ends when told to, or only by force if it is stubborn."""

    def __init__(
        self,
        *,
        silent: bool = False,
        stubborn: bool = False,
        crash: str = "",
        deaf_for: int = 0,
        queued_for: float = 0.0,
    ) -> None:
        self._queued_for = queued_for
        self._silent, self._stubborn, self._crash, self._deaf_for = silent, stubborn, crash, deaf_for
        self._over = anyio.Event()
        self._end = End("exited with code 0", code=0)
        self._report: Callable[[Event], None] | None = None
        self.number = 0
        self.orders: list[tuple[str, float]] = []

    async def live(self, report: Callable[[Event], None]) -> End:
        self._report = report
        await anyio.sleep(self._queued_for)
        report(Launched(self.number))
        if self._crash:
            raise RuntimeError(self._crash)
        if not self._silent:
            report(Opened(self.number))
        await self._over.wait()
        return self._end

    def close(self) -> None:
        self.orders.append(("close", anyio.current_time()))
        if not self._stubborn:
            self._over.set()

    def abort(self) -> None:
        self.orders.append(("abort", anyio.current_time()))
        self._deaf_for -= 1
        if self._deaf_for < 0:
            self._over.set()

    # What the script does to it.

    def say(self, fact: Event) -> None:
        assert self._report is not None
        self._report(fact)

    def die(self, end: End) -> None:
        self._end = end
        self._over.set()


class Stage:
    """An actor, the runs it had so far, and what it told of them."""

    def __init__(self, policy: Policy, script: Iterator[ScriptedRun], used_at: Callable[[], float]) -> None:
        self._script = script
        self.runs: list[ScriptedRun] = []
        self.told: list[Transition] = []
        self.scope = anyio.CancelScope()
        self.actor = ServerActor("echo", policy, self._new_run, self.told.append, used_at=used_at)

    def _new_run(self, number: int) -> ScriptedRun:
        run = next(self._script, None) or ScriptedRun()
        run.number = number
        self.runs.append(run)
        return run

    @property
    def phases(self) -> list[str]:
        return [type(transition.after.phase).__name__ for transition in self.told]


@asynccontextmanager
async def acting(
    *script: ScriptedRun, policy: Policy | None = None, used_at: Callable[[], float] = lambda: 0.0
) -> AsyncGenerator[Stage]:
    stage = Stage(policy or Policy(), iter(script), used_at)
    with anyio.fail_after(100_000):
        async with anyio.create_task_group() as tg:
            stage.scope = tg.cancel_scope
            tg.start_soon(stage.actor.run)
            yield stage
            tg.cancel_scope.cancel()
