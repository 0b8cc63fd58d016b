"""One server of the fleet: its actor, what it offers, its log, its calls and its counts.

Everything that is known about a server at run time is here, in one place, so that status, errors and the
catalog speak of the same thing. Its state is the actor's; this module reads it and never writes it.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
from msgspec import Struct, structs

from supervisor.core.catalog import Shelf, Steps
from supervisor.core.counters import Counters
from supervisor.core.phases import (
    Backoff,
    Goal,
    Killing,
    Phase,
    Ready,
    Retuned,
    Starting,
    Stopping,
    StopRequested,
    Unavailable,
    Wanted,
)
from supervisor.core.ringlog import Line, Redactor, RingLog, redacted
from supervisor.core.servers import BadServer, Launch, ServerSpec, child_environment
from supervisor.core.spec import Entry
from supervisor.core.view import ExitView, ServerDetail, ServerView, phase_word, state_word
from supervisor.errors import Outcome, ServerUnavailable
from supervisor.runtime.actor import Run, ServerActor, Transition
from supervisor.runtime.admission import ServerDesk
from supervisor.runtime.calls import Call, Deadlines
from supervisor.runtime.conversation import Listener
from supervisor.runtime.launcher import Launcher
from supervisor.runtime.liveness import Vigil
from supervisor.runtime.offering import Offering
from supervisor.runtime.process import Command, command_of
from supervisor.runtime.runs import HopelessRun, TalkingRun
from supervisor.runtime.stdio import Host, StdioRun
from supervisor.runtime.tuning import policy_of, terms_of
from supervisor.runtime.usage import usage

STDERR_SHOWN = ENDS_KEPT = 10


class Shared(Struct, frozen=True):
    """What all members of a fleet have in common."""

    host: Host
    environ: Mapping[str, str]
    """The daemon's own; children get a small part of it."""
    deadlines: Deadlines
    publish: "Callable[[Member, Transition], None]"
    tools_changed: "Callable[[Member, str], None]"
    arranging: Callable[[Shelf], Steps[object]]
    """Prepares what is on a shelf for the catalog."""
    log_line: "Callable[[Member, float, str], None]"
    resolve: Callable[[Call], bytes | None]
    counters: Counters
    max_line_bytes: int
    max_result_bytes: int


class Member:
    """One server, configured rightly or not."""

    def __init__(self, spec: ServerSpec | BadServer, shared: Shared) -> None:
        self.spec, self.name, self._shared = spec, spec.name, shared
        self._blot = Redactor(spec.secrets if isinstance(spec, ServerSpec) else frozenset())
        self.log = RingLog(redact=self.redact, on_line=self._on_line)
        self._launcher = Launcher(shared.host, shared.environ, self.log, shared.max_line_bytes)
        self.actor = ServerActor(
            self.name,
            policy_of(spec),
            self._new_run,
            self._transitioned,
            used_at=lambda: self.desk.used_at,
        )
        self._offering = Offering(spec, shared.host.memory.tools, self.redact)
        self.ends: deque[ExitView] = deque(maxlen=ENDS_KEPT)
        self.scope = anyio.CancelScope()
        """Around the actor's task; cancelled when the member is gone for good."""
        self._run: TalkingRun | None = None
        self.made = 0
        """The number of the run that was made last, which is a moment younger than the lifecycle's."""
        self.halted = False
        """Whether an operator has stopped it, and not started it since."""
        self._expected = False
        self._pressed = False
        """Whether an operator wants its next start."""
        self._since = time.time()
        self.reason = self._reason_of_rest()
        self.desk = ServerDesk(
            self.name,
            terms_of(spec),
            shared.deadlines,
            max_result_bytes=shared.max_result_bytes,
            account=self.account,
            resolve=shared.resolve,
            tally=shared.counters.server(self.name).calls,
        )
        self.desk.close(self.unavailable)
        self._vigil = Vigil(
            None if self.entry is None else self.entry.health_interval,
            called_at=lambda: self.desk.called_at,
            expired_at=lambda: self.desk.expired_at,
        )

    # What it is.

    @property
    def enabled(self) -> bool:
        return isinstance(self.spec, BadServer) or self.spec.entry.enabled

    @property
    def overridden(self) -> bool:
        """Whether an operator, and not its entry, has said if it is enabled."""
        return isinstance(self.spec, ServerSpec) and self.spec.overridden

    def _reason_of_rest(self) -> str:
        """Why it does not run, before it ever did."""
        if self.enabled:
            return "not started yet"
        return "disabled by an operator" if self.overridden else "disabled in its entry"

    @property
    def entry(self) -> Entry | None:
        return self.spec.entry if isinstance(self.spec, ServerSpec) else None

    @property
    def prefix(self) -> str:
        """How the public names of its tools begin."""
        return self._offering.prefix

    @property
    def ready(self) -> bool:
        return isinstance(self.actor.state.phase, Ready)

    @property
    def offer(self) -> Shelf | None:
        """What may be called now."""
        return self._offering.offer

    @property
    def shelf(self) -> Shelf | None:
        """What it listed last, whether or not it can be called now."""
        return self._offering.shelf

    @property
    def pid(self) -> int | None:
        """The process of its run."""
        return None if self._run is None else self._run.pid

    @property
    def noise(self) -> int:
        """Lines that its run wrote to standard output and that were not MCP."""
        return 0 if self._run is None else self._run.talk.noise

    @property
    def word(self) -> str:
        return state_word(self.actor.state.phase, enabled=self.enabled)

    @property
    def environ(self) -> Mapping[str, str]:
        """The daemon's own variables."""
        return self._shared.environ

    @property
    def command(self) -> Command | None:
        """What its runs start; None when there is nothing to start."""
        target = self.spec.target if isinstance(self.spec, ServerSpec) else None
        return command_of(target, self._shared.environ) if isinstance(target, Launch) else None

    def redact(self, text: str) -> str:
        """The text without its secrets."""
        return self._blot(text)

    # Its runs.

    def _new_run(self, number: int) -> Run:
        # What a call waits for, or an operator, is worth a try.
        doubtful = self.actor.state.doubtful and not self.desk.queued and not self._pressed
        self._pressed = False
        run = self._launcher.new_run(number, self.spec, self._listener, doubtful=doubtful)
        self._run, self.made = None if isinstance(run, HopelessRun) else run, number
        return run

    @property
    def _listener(self) -> Listener:
        return Listener(self._on_tools, self.desk.progressed, self._vigil, self.redact)

    def _transitioned(self, transition: Transition) -> None:
        self._expected = False
        reason = self.redact(transition.reason)
        self._since, self.reason = time.time(), reason
        if transition.end is not None:
            end, before = transition.end, transition.before.phase
            # That it ended by our own signal says little; why we sent it says it all.
            stopped = f"{before.detail}; " if isinstance(before, Stopping | Killing) else ""
            self.ends.append(ExitView(self.redact(stopped + end.detail), self._since, end.code, end.signal))
        if self._offering.moved(transition.before.phase, transition.after.phase):
            self._shared.tools_changed(self, phase_word(transition.after.phase))
        self._shared.publish(self, structs.replace(transition, reason=reason + self._next_try()))
        self._serve_calls(transition.after.phase)

    def _next_try(self) -> str:
        """When it is tried again, for the news of this moment; in a reason that is kept it would go stale."""
        wait = self._retry_after()
        return "" if wait is None else f"; next try in {wait:.1f} s"

    def _on_line(self, line: Line) -> None:
        self._shared.log_line(self, line.at, line.text)

    async def _on_tools(self, definitions: list[msgspec.Raw]) -> None:
        await self._offering.listed(definitions, self._shared.arranging)
        self._shared.tools_changed(self, "listed its tools")

    async def run(self) -> None:
        """Have its actor at work until the scope is cancelled."""
        with self.scope:
            await self.actor.run()

    def retune(self, spec: ServerSpec) -> None:
        """Take over what can change without a new run."""
        before, self.spec = self.spec, spec
        if isinstance(before, ServerSpec) and before.secrets != spec.secrets:
            # The same value may be a secret as it is written now.
            self._blot = Redactor(spec.secrets)
            self.log.blot()
            blotted = (structs.replace(end, reason=self.redact(end.reason)) for end in self.ends)
            self.reason, self.ends = self.redact(self.reason), deque(blotted, maxlen=ENDS_KEPT)
        self.actor.policy = policy_of(spec)
        self.desk.terms = terms_of(spec)
        self._vigil.tune(spec.entry.health_interval)
        self.actor.post(Retuned(self.desk.used_at))
        if not self.enabled:
            self.reason = self._reason_of_rest()
        self._offering.retune(spec)
        if self.shelf is not None:
            self._shared.tools_changed(self, "shown in another way")

    def halt(self, reason: str) -> None:
        """Stay, or come, to rest because an operator wanted that."""
        self.halted, self.reason = True, reason
        self.actor.post(StopRequested())

    def refuse_calls(self, why: str) -> None:
        """Take no more calls, and end those that wait; it is going to be asked to stop."""
        sentence = f"cannot call server {self.name}: {why}"
        self.desk.close(lambda: ServerUnavailable(sentence, **self.account(Outcome.NOT_SENT)))

    async def drain(self) -> None:
        """Take no more calls, and wait until those under way have ended, each by its own deadline."""
        self.desk.close(self.unavailable)
        await self.desk.idle()

    # Its calls.

    @property
    def may_return(self) -> bool:
        """Whether a call may wait for this server: it is up, or on its way."""
        state = self.actor.state
        return self._expected or (state.goal is Goal.UP and not isinstance(state.phase, Unavailable))

    def expect(self) -> None:
        """Have calls wait for this server, which is going to be asked to come up."""
        self._expected = True
        self.desk.park()

    def wake(self) -> None:
        """Have a server that sleeps, backs off or stands in line come up, because a call waits for it."""
        if not self.ready:
            self.actor.post(Wanted())
            self._hasten()

    def press(self) -> None:
        """Have its next start, or the one under way, not wait among the doubtful: an operator wants it."""
        state = self.actor.state
        self._pressed = not (isinstance(state.phase, Ready | Starting) and self.made == state.run)
        self._hasten()

    def _hasten(self) -> None:
        if isinstance(self._run, StdioRun):
            self._run.hasten()

    def _serve_calls(self, phase: Phase) -> None:
        """Tell the desk what the server's new phase means for calls."""
        if isinstance(phase, Ready) and self._run is not None:
            self.desk.open(self._run.talk.session)
        elif self.may_return:
            # What the server itself asked for is cut short by nobody but an operator.
            asked = phase.deadline if isinstance(phase, Backoff) and phase.asked else None
            self.desk.park(None if asked is None else (asked, self.unavailable))
            # As long as somebody waits it is tried soon, however often it could not be started for them.
            if isinstance(phase, Backoff) and self.desk.queued:
                self.actor.post(Wanted())
        else:
            self.desk.close(self.unavailable)

    # What it says of itself.

    def unavailable(self) -> ServerUnavailable:
        """Why a call cannot be sent now."""
        message = f"cannot call server {self.name}: it is {self.word} ({self.reason})"
        return ServerUnavailable(message, **self.account(Outcome.NOT_SENT))

    def account(self, outcome: Outcome) -> dict[str, object]:
        """What is known of the server now, for the data of an error."""
        return {
            "server": self.name,
            "outcome": outcome,
            "phase": phase_word(self.actor.state.phase),
            "exit": self.ends[-1] if self.ends and not self.ready else None,
            "stderr": [line.text for line in self.log.tail(STDERR_SHOWN)] or None,
            "retryAfter": self._retry_after(),
        }

    def _retry_after(self) -> float | None:
        """Seconds until the next try, while one is due; in milliseconds, as sums of moments are not exact."""
        phase = self.actor.state.phase
        if not isinstance(phase, Backoff):
            return None
        return max(round(phase.deadline - anyio.current_time(), 3), 0.0)

    def view(self, **standing: Any) -> ServerView:
        """One line of it; `standing` is what only the fleet knows."""
        return ServerView(**self._fields(), **standing)

    def detail(self, left_out: tuple[Mapping[str, str], ...] = (), **standing: Any) -> ServerDetail:
        target = self.spec.target if isinstance(self.spec, ServerSpec) else None
        launch = target if isinstance(target, Launch) else None
        talk = self._run.talk if self._run is not None else None
        return ServerDetail(
            **self._fields(),
            **standing,
            command=None if launch is None else str(launch.command),
            args=() if launch is None else tuple(map(str, launch.args)),
            cwd=None if launch is None or launch.cwd is None else str(launch.cwd),
            environment=()
            if launch is None
            else tuple(sorted(child_environment(launch, self._shared.environ))),
            server_info={} if talk is None else redacted(talk.session.greeting.server_info, self.redact),
            noise=0 if talk is None else talk.noise,
            timeline=() if talk is None else tuple(talk.timeline),
            ends=tuple(self.ends),
            stderr=tuple(line.text for line in self.log.tail(STDERR_SHOWN)),
            left_out=left_out,
        )

    @property
    def _stands_in_line(self) -> bool:
        phase = self.actor.state.phase
        return isinstance(phase, Starting) and phase.deadline is None and isinstance(self._run, StdioRun)

    def _fields(self) -> dict[str, Any]:
        state, run = self.actor.state, self._run
        wait = self._retry_after()
        pid = run.pid if run is not None else None
        used = usage(pid) if pid is not None else None
        return {
            "name": self.name,
            "state": self.word,
            "phase": phase_word(state.phase),
            "reason": f"{self.reason}; waits for its turn to start" if self._stands_in_line else self.reason,
            "since": self._since,
            "transport": "unknown" if self.entry is None else self.entry.type,
            "protocol": (run.talk.session.version or None) if run is not None and self.ready else None,
            "pid": pid,
            "run": state.run,
            "restarts": max(state.run - 1, 0),
            "remembered": self._offering.remembered,
            "pending": self.desk.pending,
            "source": self.spec.source,
            "shadows": self.spec.shadows,
            "overridden": self.overridden,
            "exit": self.ends[-1] if self.ends else None,
            "next_try": None if wait is None else time.time() + wait,
            "calls": dict(self.desk.outcomes),
            "latency": self.desk.latencies.view(),
            "rss": None if used is None else used.rss,
            "cpu": None if used is None else used.cpu,
        }
