"""One server of the fleet: its actor, what it offers, its log, its calls and its counts.

Everything that is known about a server at run time is here, in one place, so that status, errors and the
catalog speak of the same thing. Its state is the actor's; this module reads it and never writes it.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import anyio
import msgspec

from supervisor.core.catalog import Shelf, parse_tools
from supervisor.core.phases import (
    Backoff,
    End,
    Event,
    Goal,
    Idle,
    Phase,
    Policy,
    Ready,
    Unavailable,
    Wanted,
)
from supervisor.core.restart import RestartPolicy
from supervisor.core.ringlog import Redactor, RingLog
from supervisor.core.servers import BadServer, Launch, ServerSpec, child_environment
from supervisor.core.spec import Entry, StdioEntry
from supervisor.core.view import ExitView, ServerDetail, ServerView, phase_word, state_word
from supervisor.errors import Outcome, ServerUnavailable
from supervisor.runtime.actor import Run, ServerActor, Transition
from supervisor.runtime.admission import ServerDesk, Terms
from supervisor.runtime.calls import Call, Deadlines
from supervisor.runtime.conversation import Dialect, Listener
from supervisor.runtime.process import Command
from supervisor.runtime.stdio import Host, Program, StdioRun

logger = logging.getLogger(__name__)

STDERR_SHOWN = 10
ENDS_KEPT = 10


class HopelessRun:
    """The run of a server that cannot be started as it is configured."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def live(self, report: Callable[[Event], None]) -> End:  # noqa: ARG002 - it has nothing to report
        return End(self._reason, hopeless=True)

    def close(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """What all members of a fleet have in common."""

    host: Host
    environ: Mapping[str, str]
    """The daemon's own; children get a small part of it."""
    deadlines: Deadlines
    publish: Callable[[Transition], None]
    tools_changed: Callable[[str], None]
    resolve: Callable[[Call], bytes]
    max_line_bytes: int
    max_result_bytes: int


class Member:
    """One server, configured rightly or not."""

    def __init__(self, spec: ServerSpec | BadServer, shared: Shared) -> None:
        self.spec, self.name, self._shared = spec, spec.name, shared
        secrets = spec.secrets if isinstance(spec, ServerSpec) else frozenset[str]()
        self.redact = Redactor(secrets)
        self.log = RingLog(redact=self.redact)
        self.actor = ServerActor(
            self.name,
            _policy(spec),
            self._new_run,
            self._transitioned,
            used_at=lambda: self.desk.used_at,
        )
        self.shelf: Shelf | None = None
        """What it listed last; kept when it is gone, to tell a lost tool from one that never was."""
        self.ends: deque[ExitView] = deque(maxlen=ENDS_KEPT)
        self._run: StdioRun | None = None
        self._since = time.time()
        self._reason = "not started yet" if self.enabled else "disabled in its entry"
        self.desk = ServerDesk(
            self.name,
            _terms(spec),
            shared.deadlines,
            max_result_bytes=shared.max_result_bytes,
            account=self.account,
            resolve=shared.resolve,
        )
        self.desk.close(self.unavailable)

    # What it is.

    @property
    def enabled(self) -> bool:
        return isinstance(self.spec, BadServer) or self.spec.entry.enabled

    @property
    def entry(self) -> Entry | None:
        return self.spec.entry if isinstance(self.spec, ServerSpec) else None

    @property
    def prefix(self) -> str:
        """How the public names of its tools begin."""
        return self.name if self.entry is None or self.entry.prefix is None else self.entry.prefix

    @property
    def ready(self) -> bool:
        return isinstance(self.actor.state.phase, Ready)

    @property
    def offer(self) -> Shelf | None:
        """What may be called now: what it listed, while it is ready or waits for a call."""
        return self.shelf if isinstance(self.actor.state.phase, Ready | Idle) else None

    @property
    def word(self) -> str:
        return state_word(self.actor.state.phase, enabled=self.enabled)

    # Its runs.

    def _new_run(self, number: int) -> Run:
        self._run = None
        match self.spec:
            case BadServer(problems=problems):
                return HopelessRun("bad config: " + "; ".join(map(str, problems)))
            case ServerSpec(trouble=str() as trouble):
                return HopelessRun(trouble)
            case ServerSpec(target=Launch() as launch, entry=StdioEntry() as entry):
                listener = Listener(self._on_tools, self.desk.progressed)
                program = Program(self.name, self._command(launch), self._dialect(entry))
                self._run = StdioRun(number, program, self._shared.host, self.log, listener)
                return self._run
            case ServerSpec():
                return HopelessRun("cannot reach HTTP servers yet: this version starts stdio servers only")
        assert_never(self.spec)

    def _command(self, launch: Launch) -> Command:
        argv = [launch.command.value, *(argument.value for argument in launch.args)]
        cwd = None if launch.cwd is None else launch.cwd.value
        return Command(argv, child_environment(launch, self._shared.environ), cwd)

    def _dialect(self, entry: StdioEntry) -> Dialect:
        return Dialect(entry.protocol, entry.framing, self._shared.max_line_bytes)

    def _transitioned(self, transition: Transition) -> None:
        reason = self.redact(transition.reason)
        self._since, self._reason = time.time(), reason
        if transition.end is not None:
            end = transition.end
            self.ends.append(ExitView(self.redact(end.detail), self._since, end.code, end.signal))
        self._shared.publish(replace(transition, reason=reason))
        self._serve_calls(transition.after.phase)

    def _on_tools(self, definitions: list[msgspec.Raw]) -> None:
        tools, bad = parse_tools(definitions)
        only = None if self.entry is None else self.entry.tools
        self.shelf = Shelf(self.name, self.prefix, tools, only, bad)
        for each in bad:
            logger.warning("%s: %s (%s)", self.name, each.reason, each.name or f"tool {each.position}")
        self._shared.tools_changed(self.name)

    # Its calls.

    @property
    def may_return(self) -> bool:
        """Whether a call may wait for this server: it is up, or on its way."""
        return self.actor.state.goal is Goal.UP and not isinstance(self.actor.state.phase, Unavailable)

    def submit(self, call: Call) -> None:
        """Send the call, or let it wait; a server that sleeps or backs off is woken.

        Raises:
            ServerUnavailable, Busy: nothing was sent, and why.
        """
        self.desk.submit(call, call.request.timeout)
        if not self.ready:
            self.actor.post(Wanted())

    def _serve_calls(self, phase: Phase) -> None:
        """Tell the desk what the server's new phase means for calls."""
        if isinstance(phase, Ready) and self._run is not None:
            self.desk.open(self._run.talk.session)
        elif self.may_return:
            self.desk.park()
        else:
            self.desk.close(self.unavailable)

    # What it says of itself.

    def unavailable(self) -> ServerUnavailable:
        """Why a call cannot be sent now."""
        message = f"cannot call server {self.name}: it is {self.word} ({self._reason})"
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
        """Seconds until the next try, while one is due."""
        phase = self.actor.state.phase
        return max(phase.deadline - anyio.current_time(), 0.0) if isinstance(phase, Backoff) else None

    def view(self, tools: int) -> ServerView:
        return ServerView(**self._fields(tools))

    def detail(self, tools: int, left_out: tuple[Mapping[str, str], ...]) -> ServerDetail:
        target = self.spec.target if isinstance(self.spec, ServerSpec) else None
        launch = target if isinstance(target, Launch) else None
        talk = self._run.talk if self._run is not None else None
        return ServerDetail(
            **self._fields(tools),
            command=None if launch is None else str(launch.command),
            args=() if launch is None else tuple(map(str, launch.args)),
            cwd=None if launch is None or launch.cwd is None else str(launch.cwd),
            environment=()
            if launch is None
            else tuple(sorted(child_environment(launch, self._shared.environ))),
            server_info={} if talk is None else talk.session.greeting.server_info,
            calls=dict(self.desk.outcomes),
            noise=0 if talk is None else talk.noise,
            timeline=() if talk is None else tuple(talk.timeline),
            ends=tuple(self.ends),
            stderr=tuple(line.text for line in self.log.tail(STDERR_SHOWN)),
            left_out=left_out,
        )

    def _variables(self, launch: Launch) -> tuple[str, ...]:
        return tuple(sorted(child_environment(launch, self._shared.environ)))

    def _fields(self, tools: int) -> dict[str, Any]:
        state, run = self.actor.state, self._run
        wait = self._retry_after()
        return {
            "name": self.name,
            "state": self.word,
            "phase": phase_word(state.phase),
            "reason": self._reason,
            "since": self._since,
            "transport": "unknown" if self.entry is None else self.entry.type,
            "protocol": (run.talk.session.version or None) if run is not None and self.ready else None,
            "pid": run.pid if run is not None else None,
            "run": state.run,
            "restarts": max(state.run - 1, 0),
            "tools": tools,
            "pending": self.desk.pending,
            "source": self.spec.source,
            "shadows": self.spec.shadows,
            "exit": self.ends[-1] if self.ends else None,
            "next_try": None if wait is None else time.time() + wait,
        }


def _terms(spec: ServerSpec | BadServer) -> Terms:
    """What the desk needs of an entry."""
    if isinstance(spec, BadServer):
        return Terms()
    entry = spec.entry
    return Terms(entry.call_timeout, entry.max_call_time, entry.max_concurrency, entry.max_queue)


def _policy(spec: ServerSpec | BadServer) -> Policy:
    """What the lifecycle needs of an entry."""
    if isinstance(spec, BadServer):
        return Policy()
    entry = spec.entry
    restart = RestartPolicy(
        mode=entry.restart.policy,
        delay=entry.restart.delay,
        max_delay=entry.restart.max_delay,
        max_failures=entry.restart.max_failures,
        window=entry.restart.window,
    )
    return Policy(
        restart=restart,
        start_timeout=entry.start_timeout,
        stop_grace=entry.stop_grace,
        lazy=entry.start == "lazy",
        idle_timeout=entry.idle_timeout,
    )
