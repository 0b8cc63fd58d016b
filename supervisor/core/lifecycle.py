"""The life of one server, as a pure function.

    step(state, event, policy, now=…, jitter=…) -> Step(state, effects, reason)

Rule 1: everything that decides what a server does next is in this file. The actor performs effects
and reports facts; it decides nothing.

Rule 2: nothing here awaits, reads a clock, draws a random number, logs or imports `anyio` or `mcp`.

Theory of operation
-------------------
A state has two halves: `goal`, what the operator wants, and `phase`, what is so. A stop that arrives
during a start only changes the goal and the way out, so no command is ever illegal. A start that
arrives during a stop turns it into a restart, so no wish is ever lost.

Every try to bring a server up is a numbered *run*. Facts carry the number of the run they speak of,
and a fact of a past run is dropped in one place. A run is over only when its resources are proven
gone (`Ended`): the group empty, the child reaped, the session closed. So two runs never overlap, but for
one that has *parted*: its server cannot be reached, so it is over and another may begin, while the requests
that it has under way linger and end by themselves. Whoever stops or restarts the server ends them too.
A run may wait for its turn before it begins (`Launched`); only then does its time to start run.

A call that finds a server in backoff has it tried soon, but not more often than `RestartPolicy.pace` says.
What fails before the schedule's own next try (`ServerState.due`) was such a try and does not count: however
many calls come, a crash loop is called one when it would have been without them, and not before.

A phase carries its own deadline; there are no timers to cancel, hence none to go stale. The actor
sleeps until `state.deadline` and then reports `DeadlinePassed`.

`docs/architecture.md` has the diagram, drawn by calling `step`.
"""

from typing import assert_never

from msgspec.structs import replace

from supervisor.core.phases import (
    Abort,
    Backoff,
    Close,
    Command,
    DeadlinePassed,
    End,
    Ended,
    Event,
    Fact,
    Goal,
    Idle,
    Killing,
    KillRequested,
    Launched,
    Lost,
    Open,
    Opened,
    Parted,
    Phase,
    Policy,
    Ready,
    RestartRequested,
    Retuned,
    ServerState,
    Starting,
    StartRequested,
    Step,
    StopCause,
    Stopped,
    Stopping,
    StopRequested,
    Unavailable,
    Unhealthy,
    Wanted,
)
from supervisor.core.restart import GiveUp, Retry, decide, recent

MOST_LINGERING = 16
"""Runs; a server that comes and goes, and answers nothing, would have us keep more and more connections."""


def step(state: ServerState, event: Event, policy: Policy, *, now: float, jitter: float = 0.0) -> Step:
    """Apply one event."""
    match event:
        case StartRequested() | StopRequested() | KillRequested() | RestartRequested() | Wanted():
            return _on_command(state, event, policy, now)
        case Launched() | Opened() | Lost() | Unhealthy() | Parted() | Ended():
            if event.run in state.lingering:
                return _on_cleared(state, policy, now, event) if isinstance(event, Ended) else Step(state)
            return _on_fact(state, event, policy, now, jitter) if event.run == state.run else Step(state)
        case Retuned():
            return _on_retuned(state, policy, now, event.used_at)
        case DeadlinePassed():
            return _on_deadline(state, policy, now, event.used_at)
    assert_never(event)


def _on_command(state: ServerState, command: Command, policy: Policy, now: float) -> Step:
    match command:
        case StartRequested():
            return _on_start(state, policy)
        case StopRequested():
            return _on_stop(state, policy, now, command.reason)
        case KillRequested():
            return _on_kill(state, policy, now)
        case RestartRequested():
            return _on_restart(state, policy, now)
        case Wanted():
            return _on_wanted(state, now)
    assert_never(command)


def _on_fact(state: ServerState, fact: Fact, policy: Policy, now: float, jitter: float) -> Step:
    match fact:
        case Launched():
            return _on_launched(state, policy, now)
        case Opened():
            return _on_opened(state, policy, now)
        case Lost():
            return _on_lost(state, policy, now, StopCause.LOST, fact.detail)
        case Unhealthy():
            return _on_lost(state, policy, now, StopCause.UNHEALTHY, f"unhealthy: {fact.detail}")
        case Parted():
            return _on_parted(state, policy, now, jitter, fact.end)
        case Ended():
            return _on_ended(state, policy, now, jitter, fact.end)
    assert_never(fact)


def _on_start(state: ServerState, policy: Policy) -> Step:
    state = replace(state, goal=Goal.UP)
    match state.phase:
        case Stopped() | Unavailable() if policy.lazy:
            return Step(replace(_forgiven(state), phase=Idle()), reason="waits for a first call")
        case Stopped() | Idle() | Backoff() | Unavailable():
            return _begin(_forgiven(state), "start requested")
        case Stopping() | Killing():
            return _again(_forgiven(state), "start requested during the stop")
        case Starting() | Ready():
            return Step(state)
    assert_never(state.phase)


def _on_stop(state: ServerState, policy: Policy, now: float, reason: str) -> Step:
    state = replace(state, goal=Goal.DOWN)
    match state.phase:
        case Starting() | Ready():
            return _close(state, policy, now, StopCause.REQUESTED, reason)
        case Idle() | Backoff() | Unavailable() if state.lingering:
            return _close(state, policy, now, StopCause.REQUESTED, reason)
        case Idle() | Backoff() | Unavailable():
            return Step(replace(state, phase=Stopped()), reason=reason)
        case Stopped() | Stopping() | Killing():
            return Step(state)
    assert_never(state.phase)


def _on_kill(state: ServerState, policy: Policy, now: float) -> Step:
    aborted = replace(state, goal=Goal.DOWN)
    match state.phase:
        case Starting() | Ready() | Stopping():
            return _abort(aborted, policy, now, StopCause.REQUESTED, "kill requested")
        case Idle() | Backoff() | Unavailable() | Killing() if state.lingering:
            return _abort(aborted, policy, now, StopCause.REQUESTED, "kill requested")
        case Stopped() | Idle() | Killing() | Backoff() | Unavailable():
            return _on_stop(state, policy, now, StopCause.REQUESTED)
    assert_never(state.phase)


def _on_restart(state: ServerState, policy: Policy, now: float) -> Step:
    state = replace(_forgiven(state), goal=Goal.UP)
    match state.phase:
        case Starting() | Ready():
            return _close(state, policy, now, StopCause.RESTART, "restart requested")
        case Stopping() | Killing():
            return _again(state, "restart requested during the stop")
        case Idle() | Backoff() | Unavailable() if state.lingering:
            return _close(state, policy, now, StopCause.RESTART, "restart requested")
        case Stopped() | Idle() | Backoff() | Unavailable():
            return _begin(state, "restart requested")
    assert_never(state.phase)


def _on_wanted(state: ServerState, now: float) -> Step:
    match state.phase:
        case Idle():
            return _begin(state, "a call wants it")
        case Backoff(asked=False, soonest=soonest) if soonest <= now:
            return _begin(state, "a call wants it, backoff cut short")
        case Backoff(asked=False, deadline=deadline, soonest=soonest):
            sooner = replace(state.phase, deadline=min(deadline, soonest))
            return Step(replace(state, phase=sooner), reason="a call wants it soon")
        case Stopping(cause=StopCause.IDLE) | Killing(cause=StopCause.IDLE):
            return _again(state, "a call wants it")
        case Stopped() | Starting() | Ready() | Stopping() | Killing() | Backoff() | Unavailable():
            return Step(state)
    assert_never(state.phase)


def _on_deadline(state: ServerState, policy: Policy, now: float, used_at: float) -> Step:
    match state.phase:
        case Starting():
            detail = f"did not answer within {policy.start_timeout:g} s"
            return _close(state, policy, now, StopCause.START_TIMEOUT, detail)
        case Stopping(cause=cause) | Killing(cause=cause):
            return _abort(state, policy, now, cause, "out of time")
        case Backoff():
            return _begin(state, "backoff over")
        case Ready():
            return _on_idle_check(state, state.phase, policy, now, used_at)
        case Stopped() | Idle() | Unavailable():
            return Step(state)
    assert_never(state.phase)


def _on_retuned(state: ServerState, policy: Policy, now: float, used_at: float) -> Step:
    if isinstance(state.phase, Ready):
        return _on_idle_check(state, state.phase, policy, now, used_at)
    return Step(state)


def _on_idle_check(state: ServerState, ready: Ready, policy: Policy, now: float, used_at: float) -> Step:
    if policy.idle_timeout is None:
        return Step(replace(state, phase=replace(ready, deadline=None)), reason="no idle timeout")
    due = max(ready.since, used_at) + policy.idle_timeout
    if now < due:
        return Step(replace(state, phase=replace(ready, deadline=due)), reason="still in use")
    detail = f"not used for {policy.idle_timeout:g} s"
    return _close(state, policy, now, StopCause.IDLE, detail)


def _on_launched(state: ServerState, policy: Policy, now: float) -> Step:
    if not isinstance(state.phase, Starting):
        return Step(state)
    return Step(replace(state, phase=Starting(deadline=now + policy.start_timeout)), reason="has its turn")


def _on_opened(state: ServerState, policy: Policy, now: float) -> Step:
    if not isinstance(state.phase, Starting):
        return Step(state)
    look = None if policy.idle_timeout is None else now + policy.idle_timeout
    return Step(
        replace(state, phase=Ready(since=now, deadline=look)), reason="answers and has listed its tools"
    )


def _on_lost(state: ServerState, policy: Policy, now: float, cause: StopCause, detail: str) -> Step:
    match state.phase:
        case Starting() | Ready():
            return _close(state, policy, now, cause, detail)
        case Stopped() | Idle() | Stopping() | Killing() | Backoff() | Unavailable():
            return Step(state)
    assert_never(state.phase)


def _on_parted(state: ServerState, policy: Policy, now: float, jitter: float, end: End) -> Step:
    """Go on as after an end, beside what lingers."""
    if not _has_a_run(state.phase):
        return Step(state)
    state = replace(state, lingering=(*state.lingering, state.run))
    too_many = tuple(Abort(run) for run in state.lingering[:-MOST_LINGERING])
    result = _on_ended(state, policy, now, jitter, end)
    return replace(result, effects=(*too_many, *result.effects))


def _on_cleared(state: ServerState, policy: Policy, now: float, ended: Ended) -> Step:
    """Nothing is left of a run that had parted."""
    state = replace(state, lingering=tuple(run for run in state.lingering if run != ended.run))
    match state.phase:
        case Stopping(over=True) | Killing(over=True) if not state.lingering:
            return _on_ended(state, policy, now, 0.0, End("its last requests have ended"))
        case _:
            return Step(state)


def _on_ended(state: ServerState, policy: Policy, now: float, jitter: float, end: End) -> Step:
    if state.lingering and _ends_all(state):
        assert isinstance(state.phase, Stopping | Killing)
        waiting = replace(state.phase, over=True)
        return Step(replace(state, phase=waiting), reason=f"{end.detail}; its last requests may still end")
    if state.goal is Goal.DOWN:
        return Step(replace(state, phase=Stopped()), reason=_why_stopped(state.phase, end))
    match state.phase:
        case (
            Stopping(cause=StopCause.RESTART, detail=detail) | Killing(cause=StopCause.RESTART, detail=detail)
        ):
            return _begin(state, f"{detail}; {end.detail}; starting again")
        case Stopping(cause=StopCause.IDLE, detail=detail) | Killing(cause=StopCause.IDLE, detail=detail):
            return Step(replace(state, phase=Idle()), reason=f"{detail}; {end.detail}; waits for a call")
        case Stopping(detail=detail, served=served) | Killing(detail=detail, served=served):
            # What made us stop it is the reason; how it ended by our own signal, even with code 0, is not.
            return _fail(state, policy, now, jitter, replace(end, detail=detail, code=None), served)
        case Ready(since=since):
            return _fail(state, policy, now, jitter, end, now - since)
        case Starting():
            return _fail(state, policy, now, jitter, end, None)
        case Stopped() | Idle() | Backoff() | Unavailable():
            return Step(state)
    assert_never(state.phase)


def _why_stopped(phase: Phase, end: End) -> str:
    """What made us end the run, then how it ended: our own signal alone would look like a failure."""
    match phase:
        case Stopping(cause=StopCause.REQUESTED) | Killing(cause=StopCause.REQUESTED):
            return f"{phase.detail}; {end.detail}"
        case Stopping() | Killing():
            return f"{phase.detail}; {end.detail}; {StopCause.REQUESTED}"
        case _:
            return end.detail


def _ends_all(state: ServerState) -> bool:
    """Whether the server is being stopped by somebody, with all that lingers."""
    restarted = isinstance(state.phase, Stopping | Killing) and state.phase.cause is StopCause.RESTART
    return restarted or state.goal is Goal.DOWN


def _has_a_run(phase: Phase) -> bool:
    """Whether there is a run that has neither ended nor parted."""
    if isinstance(phase, Stopping | Killing):
        return not phase.over
    return isinstance(phase, Starting | Ready)


def _forgiven(state: ServerState) -> ServerState:
    return replace(state, failures=(), due=0.0, stillborn=False)


def _begin(state: ServerState, reason: str) -> Step:
    run = state.run + 1
    return Step(replace(state, phase=Starting(), run=run), (Open(run),), reason)


def _again(state: ServerState, reason: str) -> Step:
    """Let the stop under way end in a new run."""
    assert isinstance(state.phase, Stopping | Killing)
    return Step(replace(state, phase=replace(state.phase, cause=StopCause.RESTART)), reason=reason)


def _close(state: ServerState, policy: Policy, now: float, cause: StopCause, detail: str) -> Step:
    served = now - state.phase.since if isinstance(state.phase, Ready) else 0.0
    over = not _has_a_run(state.phase)
    phase = Stopping(now + policy.stop_grace, cause, detail, served, over)
    return Step(replace(state, phase=phase), () if over else (Close(state.run),), detail)


def _abort(state: ServerState, policy: Policy, now: float, cause: StopCause, why: str) -> Step:
    over = not _has_a_run(state.phase)
    match state.phase:
        case Stopping(detail=detail, served=served) | Killing(detail=detail, served=served):
            phase = Killing(now + policy.kill_retry, cause, detail, served, over)
        case _:
            phase = Killing(now + policy.kill_retry, cause, why, over=over)
    state = replace(state, phase=phase)
    runs = (*(state.lingering if _ends_all(state) else ()), *(() if over else (state.run,)))
    return Step(state, tuple(map(Abort, runs)), f"{why}, killing")


def _fail(
    state: ServerState, policy: Policy, now: float, jitter: float, end: End, served: float | None
) -> Step:
    """Decide what follows an unplanned end; `served` is how long the run was ready, if it ever was."""
    if end.hopeless:
        return Step(replace(state, phase=Unavailable(end.detail)), reason=end.detail)
    restart = policy.restart
    if served is not None and served >= restart.healthy_after:
        state = _forgiven(state)
    early = now < state.due
    kept = recent(state.failures, now=now, window=restart.window)
    state = replace(state, failures=kept if early else (*kept, *(now,) * end.deaths), stillborn=not served)
    clean, due = served is not None and end.code == 0, state.due if early else None
    decision = decide(restart, state.failures, clean=clean, now=now, jitter=jitter, due=due)
    match decision:
        case GiveUp(reason=reason):
            full = f"{end.detail}; {reason}" if reason else end.detail
            return Step(replace(state, phase=Unavailable(full)), reason=full)
        case Retry(delay=delay, reason=reason):
            due = now + delay if due is None else due
            soonest = now + max(restart.pace - (served or 0.0), 0.0)
            deadline, wish = max(due, soonest), now + (end.retry_after or 0.0)
            phase = Backoff(max(deadline, wish), soonest, asked=wish > deadline)
            return Step(replace(state, phase=phase, due=due), reason=f"{end.detail}; {reason}")
    assert_never(decision)
