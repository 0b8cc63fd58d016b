"""Moments in a server's life, and one turn of it, for the tables of rules."""

from collections.abc import Callable

from supervisor.core.lifecycle import step
from supervisor.core.phases import (
    Backoff,
    Effect,
    Event,
    Goal,
    Killing,
    Phase,
    Policy,
    Ready,
    ServerState,
    Starting,
    Step,
    StopCause,
    Stopping,
    Unavailable,
)
from supervisor.core.restart import RestartPolicy

NOW = 100.0
NEW = Starting()
STARTING = Starting(deadline=110.0)
READY = Ready(since=90.0)
BACKOFF = Backoff(deadline=105.0)
GIVEN_UP = Unavailable("exit 1")

NEVER = Policy()
ON_FAILURE = Policy(restart=RestartPolicy(mode="on-failure"))
ALWAYS = Policy(restart=RestartPolicy(mode="always"))
LAZY = Policy(lazy=True, idle_timeout=60.0)

Stage = Callable[[StopCause], Phase]


def at(phase: Phase, *, goal: Goal = Goal.UP, failures: tuple[float, ...] = ()) -> ServerState:
    return ServerState(goal=goal, phase=phase, run=3, failures=failures)


def turn(phase: Phase, event: Event, policy: Policy = NEVER, *, goal: Goal = Goal.UP) -> Step:
    return step(at(phase, goal=goal), event, policy, now=NOW)


def closing(cause: StopCause, detail: str = "why", *, served: float = 0.0) -> Stopping:
    return Stopping(deadline=105.0, cause=cause, detail=detail, served=served)


def killing(cause: StopCause, detail: str = "why", *, served: float = 0.0) -> Killing:
    return Killing(deadline=102.0, cause=cause, detail=detail, served=served)


def check(got: Step, after: Phase, effects: tuple[Effect, ...], reason: str) -> None:
    assert got.state.phase == after
    assert got.effects == effects
    assert got.reason == reason
