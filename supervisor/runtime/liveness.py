"""The watch over one run: looks after a silent server, asks it, and says when it is dead.

Gathers the evidence that `core.liveness` judges: what was heard, the calls under way, the pulse of the
processes, the answers to probes. It ends nothing: whoever waits for `death` reports it to the lifecycle.
"""

import contextlib
from collections.abc import Callable
from typing import assert_never

import anyio
import msgspec
from msgspec import Struct

from supervisor.core.liveness import Alive, Ask, Dead, Evidence, judge, next_look
from supervisor.core.phases import End
from supervisor.errors import SupervisorError
from supervisor.runtime.pulse import Pulse
from supervisor.runtime.wire import NotSent, Waiting


def _never() -> None:
    return None


class Vigil:
    """How closely a server is watched, and what is known of its calls; the same for all of its runs."""

    def __init__(
        self,
        interval: float | None = None,
        *,
        called_at: Callable[[], float | None] = _never,
        expired_at: Callable[[], float | None] = _never,
    ) -> None:
        self.interval = interval
        """Seconds of silence after which the server is doubted; None is never."""
        self.called_at, self.expired_at = called_at, expired_at
        self._tuned = anyio.Event()

    def tune(self, interval: float | None) -> None:
        """Watch more or less closely from now on."""
        self.interval = interval
        self._tuned.set()
        self._tuned = anyio.Event()

    async def wanted(self) -> float:
        """The interval, as soon as there is one."""
        while self.interval is None:
            await self._tuned.wait()
        return self.interval

    async def tuned(self, *, deadline: float) -> bool:
        """Wait until the interval changes, but no longer than to that moment; tells whether it did."""
        with anyio.move_on_after(deadline - anyio.current_time()):
            await self._tuned.wait()
            return True
        return False


class Subject(Struct, frozen=True):
    """The server that is watched."""

    heard_at: Callable[[], float]
    """When it last said anything."""
    probe: Callable[[Waiting], object]
    """Asks it for a sign of life; raises `NotSent` when it takes nothing."""
    pulse: Callable[[], Pulse | None] = _never
    """What its processes have done so far; None for a server that is no process of ours."""
    answers: bool = False
    """Whether it is known to answer probes."""


class Watch:
    """The evidence about one run, and the looks at it."""

    def __init__(self, vigil: Vigil, subject: Subject) -> None:
        self._vigil, self._subject = vigil, subject
        self._answers, self._tried = subject.answers, subject.answers
        self._answered_at = anyio.current_time()
        self._asked_at: float | None = None
        self._pulse: Pulse | None = None
        self._moved_at: float | None = None
        self._frozen_at: float | None = None

    async def death(self) -> str:
        """Wait until the server is dead, and say why; while nobody wants to know, for ever."""
        while True:
            interval = await self._vigil.wanted()
            self._try_once()
            evidence = self._evidence(interval)
            verdict = judge(evidence, interval=interval)
            match verdict:
                case Dead(reason=reason):
                    return reason
                case Ask():
                    self._ask()
                case Alive():
                    pass
                case _:
                    assert_never(verdict)
            due = next_look(evidence, interval=interval)
            if await self._vigil.tuned(deadline=due) or anyio.current_time() > due + interval / 2:
                # When we are late ourselves, what was not heard in time says nothing about the server.
                self._asked_at = self._frozen_at = None

    def _try_once(self) -> None:
        """See whether it answers a probe at all, while there is no doubt and nothing hangs on it."""
        if not self._tried:
            self._tried = True
            self._ask()

    def _ask(self) -> None:
        self._asked_at = anyio.current_time()
        # Who takes nothing does not answer either.
        with contextlib.suppress(NotSent):
            self._subject.probe(_Probe(self._on_answer, self._on_failure))

    def _on_answer(self) -> None:
        self._answers = True
        self._answered_at = anyio.current_time()

    def _on_failure(self) -> None:
        """The wire knows why there will be no answer, and draws its own conclusions."""
        self._asked_at = None

    def _evidence(self, interval: float) -> Evidence:
        now = anyio.current_time()
        heard_at = max(self._subject.heard_at(), self._answered_at)
        if now >= heard_at + interval:
            self._take_pulse(now)
        return Evidence(
            now=now,
            heard_at=heard_at,
            called_at=self._vigil.called_at(),
            expired_at=self._vigil.expired_at(),
            moved_at=self._moved_at,
            frozen_at=self._frozen_at,
            answers=self._answers,
            asked_at=self._asked_at,
        )

    def _take_pulse(self, now: float) -> None:
        before, self._pulse = self._pulse, self._subject.pulse()
        if self._pulse is None:
            return
        if before is None or self._pulse.figures != before.figures:
            self._moved_at = now
        if not self._pulse.frozen:
            self._frozen_at = None
        elif self._frozen_at is None:
            self._frozen_at = now


class _Probe:
    """A question whose answer matters only as such."""

    def __init__(self, on_answer: Callable[[], None], on_failure: Callable[[], None]) -> None:
        self._on_answer, self._on_failure = on_answer, on_failure

    def answered(self, result: msgspec.Raw) -> None:  # noqa: ARG002 - that there is one says it all
        self._on_answer()

    def refused(self, error: msgspec.Raw) -> None:  # noqa: ARG002 - who refuses is there
        self._on_answer()

    def unusable(self, problem: SupervisorError) -> None:  # noqa: ARG002 - who speaks is there
        self._on_answer()

    def lost(self, end: End) -> None:  # noqa: ARG002 - the wire tells why
        self._on_failure()

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:  # noqa: ARG002 - as above
        self._on_failure()
