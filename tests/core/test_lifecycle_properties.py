"""What holds in every life of a server, whatever is asked, whatever happens, and whenever.

A `World` plays random moves against `step` as the actor would: it obeys orders, keeps the clock, reports
`DeadlinePassed` when a deadline is due, and checks after every turn what must never be broken.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from supervisor.core.lifecycle import step
from supervisor.core.phases import (
    Abort,
    Backoff,
    Close,
    Command,
    DeadlinePassed,
    End,
    Ended,
    Event,
    Goal,
    Idle,
    Killing,
    KillRequested,
    Launched,
    Lost,
    Open,
    Opened,
    Parted,
    Policy,
    Ready,
    RestartRequested,
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
from supervisor.core.restart import RestartPolicy

COMMANDS: list[Command] = [
    StartRequested(),
    StopRequested(),
    KillRequested(),
    RestartRequested(),
    Wanted(),
]
ENDS = [
    End("exited with code 0", code=0),
    End("exited with code 1", code=1),
    End("killed by signal 9 (SIGKILL)", signal=9),
    End("no such file", hopeless=True),
]
FACTS: list[Callable[[int], Event]] = [
    Launched,
    Opened,
    lambda run: Lost(run, "closed its standard output"),
    lambda run: Unhealthy(run, "no pong"),
    *(lambda run, end=end: Parted(run, end) for end in ENDS[2:]),
    *(lambda run, end=end: Ended(run, end) for end in ENDS),
]


@dataclass
class World:
    """One server, its clock, and the run that the actor would have."""

    policy: Policy
    busy: bool = False
    """Whether a call is in flight all the time."""
    jitter: float = 0.0
    state: ServerState = field(default_factory=ServerState)
    now: float = 1000.0
    alive: int | None = None
    lingering: set[int] = field(default_factory=set[int])
    aborted: set[int] = field(default_factory=set[int])
    opened_at: list[float] = field(default_factory=list[float])

    def apply(self, event: Event) -> Step:
        if isinstance(event, Ended | Parted) and event.run == self.alive:
            self.alive = None
            self.lingering |= {event.run} if isinstance(event, Parted) else set()
        elif isinstance(event, Ended):
            self.lingering.discard(event.run)
        before = self.state
        result = step(before, event, self.policy, now=self.now, jitter=self.jitter)
        self.state = result.state
        for effect in result.effects:
            self._obey(effect)
        self._check(before, result)
        return result

    def _obey(self, effect: Open | Close | Abort) -> None:
        if isinstance(effect, Open):
            assert self.alive is None, "a run was opened before the one before it was gone"
            self.alive = effect.run
            self.opened_at.append(self.now)
        else:
            assert effect.run in self.left, "an order was given to a run that is gone"
            self.aborted |= {effect.run} if isinstance(effect, Abort) else set()

    @property
    def left(self) -> set[int]:
        """Runs that are not gone."""
        return self.lingering if self.alive is None else self.lingering | {self.alive}

    def _check(self, before: ServerState, result: Step) -> None:
        state = result.state
        if type(state.phase) is not type(before.phase):
            assert result.reason, "a change of phase has a reason"
        if state.deadline != before.deadline and state.deadline is not None:
            assert state.deadline >= self.now, "a deadline was set in the past"
        stopping = isinstance(state.phase, Stopping | Killing)
        over = isinstance(state.phase, Stopping | Killing) and state.phase.over
        runs = isinstance(state.phase, Starting | Ready) or (stopping and not over)
        assert self.lingering == set(state.lingering), "the state knows what lingers"
        assert not (self.lingering and isinstance(state.phase, Stopped)), "what is stopped has nothing left"
        assert self.alive == (state.run if runs else None), "the phase knows whether something runs"
        wanted = not isinstance(state.phase, Stopped)
        assert stopping or (state.goal is Goal.UP) == wanted, "the phase follows the goal"

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with every deadline on the way."""
        until = self.now + seconds
        while (due := self.state.deadline) is not None and due <= until:
            self.now = due
            self.apply(DeadlinePassed(self.now if self.busy else 0.0))
        self.now = until

    def end(self, end: End) -> Step:
        """What runs, ends."""
        assert self.alive is not None
        return self.apply(Ended(self.alive, end))

    def end_all(self, end: End) -> None:
        """Everything ends, what lingers too."""
        for run in sorted(self.left):
            self.apply(Ended(run, end))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        restart=RestartPolicy(
            mode=draw(st.sampled_from(["never", "on-failure", "always"])),
            max_failures=draw(st.integers(1, 4)),
            window=draw(st.sampled_from([10.0, 300.0])),
            healthy_after=draw(st.sampled_from([5.0, 60.0])),
        ),
        start_timeout=draw(st.sampled_from([1.0, 30.0])),
        stop_grace=draw(st.sampled_from([0.0, 5.0])),
        lazy=draw(st.booleans()),
        idle_timeout=draw(st.sampled_from([None, 20.0])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A server after any history."""
    world = World(draw(policies()), draw(st.booleans()), draw(st.floats(0, 0.999)))
    for _ in range(draw(st.integers(0, 25))):
        move = draw(st.integers(0, 3))
        if move == 0:
            world.apply(draw(st.sampled_from(COMMANDS)))
        elif move == 1:
            world.pass_time(draw(st.floats(0, 40)))
        elif move == 2:
            world.apply(draw(st.sampled_from(FACTS))(draw(st.integers(0, world.state.run))))
        elif world.alive is not None:
            world.apply(draw(st.sampled_from(FACTS))(world.alive))
    return world


@given(worlds())
def test_no_history_breaks_an_invariant(world: World) -> None:
    world.pass_time(100.0)


@given(worlds(), st.sampled_from(FACTS), st.data())
def test_a_fact_of_a_past_run_changes_nothing(
    world: World, fact: Callable[[int], Event], data: st.DataObject
) -> None:
    past = data.draw(st.integers(-1, world.state.run - 1))
    assume(past not in world.lingering)
    before = world.state

    assert world.apply(fact(past)) == Step(before)


@given(worlds(), st.sampled_from(ENDS))
def test_a_stop_ends_as_soon_as_the_run_does(world: World, end: End) -> None:
    world.apply(StopRequested())
    world.end_all(end)

    assert world.state.phase == Stopped()


@given(worlds())
def test_a_run_that_ignores_its_stop_is_killed_when_grace_is_over_and_again_until_it_ends(
    world: World,
) -> None:
    # Who is being killed has had its grace; the next order is that of the next try.
    killing = isinstance(world.state.phase, Killing)
    world.apply(StopRequested())
    world.pass_time(world.policy.kill_retry if killing else world.policy.stop_grace)
    assert world.aborted >= world.left

    world.aborted.clear()
    world.pass_time(world.policy.kill_retry)
    assert world.aborted >= world.left


@given(worlds())
def test_a_kill_gives_its_order_at_once(world: World) -> None:
    world.apply(KillRequested())

    assert world.aborted >= world.left


@given(worlds(), st.sampled_from(ENDS))
def test_a_start_is_never_lost(world: World, end: End) -> None:
    stopping = isinstance(world.state.phase, Stopping | Killing)
    run = world.state.run
    world.apply(StartRequested())
    if stopping:
        world.end_all(end)
        assert world.state.run == run + 1, "a start during a stop leads to a new run"
    if isinstance(world.state.phase, Starting):
        world.apply(Opened(world.state.run))

    expected = Ready | Idle if world.policy.lazy else Ready
    assert isinstance(world.state.phase, expected)


@given(worlds(), st.sampled_from(ENDS))
def test_a_restart_is_never_lost_and_always_a_new_run(world: World, end: End) -> None:
    run = world.state.run
    world.apply(RestartRequested())
    if not isinstance(world.state.phase, Starting):
        world.end_all(end)

    assert isinstance(world.state.phase, Starting)
    assert world.state.run == run + 1


@given(worlds(), st.sampled_from([StartRequested(), RestartRequested()]), st.sampled_from(ENDS))
def test_a_start_that_fails_ends_with_a_reason(world: World, wish: Command, end: End) -> None:
    world.apply(wish)
    if isinstance(world.state.phase, Stopping | Killing):
        world.end_all(ENDS[0])
    if not isinstance(world.state.phase, Starting):
        return
    result = world.end(end)

    assert isinstance(result.state.phase, Backoff | Unavailable)
    assert end.detail in result.reason


@given(worlds())
def test_a_call_brings_up_whatever_merely_waits(world: World) -> None:
    phase, goal = world.state.phase, world.state.goal
    waits = isinstance(phase, Idle | Backoff)
    unused = isinstance(phase, Stopping | Killing) and phase.cause is StopCause.IDLE and goal is Goal.UP
    world.apply(Wanted())
    if unused:
        world.end_all(ENDS[0])

    # One that has only just failed is tried when its pace allows it.
    world.pass_time(world.policy.restart.pace)

    assert isinstance(world.state.phase, Starting | Stopping) or not (waits or unused)


@given(worlds())
def test_a_server_in_use_is_not_stopped_for_being_unused(world: World) -> None:
    world.busy = True
    run = world.state.run if isinstance(world.state.phase, Ready) else None
    world.pass_time(500.0)

    assert run is None or (isinstance(world.state.phase, Ready) and world.state.run == run)


LIVES = st.tuples(st.floats(0, 20), st.booleans(), st.sampled_from(ENDS[:3]))


@given(st.sampled_from([10.0, 60.0, 300.0]), st.lists(LIVES, max_size=60))
def test_without_operator_or_calls_a_failing_server_is_started_at_most_as_often_as_the_budget_says(
    window: float, lives: list[tuple[float, bool, End]]
) -> None:
    world = World(Policy(restart=RestartPolicy(mode="always", max_failures=4, window=window)))
    world.apply(StartRequested())
    for lasted, opens, end in lives:
        if opens and isinstance(world.state.phase, Starting):
            world.apply(Opened(world.state.run))
        world.pass_time(lasted)
        if world.alive is not None:
            world.end(end)

    for first in world.opened_at:
        assert sum(first <= at < first + window for at in world.opened_at) <= 4


PAUSES = st.lists(st.floats(0.01, 3), min_size=1, max_size=20)


def besieged(policy: RestartPolicy, jitter: float, pauses: list[float], *, takes: float) -> World:
    """A server that crashes at every start, `takes` seconds after it began, while calls come all the time."""
    world = World(Policy(restart=policy), jitter=jitter)
    world.apply(StartRequested())
    for number in range(5000):
        if isinstance(world.state.phase, Unavailable):
            break
        if world.alive is not None:
            world.now += takes
            world.end(ENDS[1])
        world.apply(Wanted())
        world.pass_time(pauses[number % len(pauses)])
    return world


@given(st.integers(1, 6), st.floats(0, 0.999), PAUSES)
def test_calls_bring_the_verdict_on_a_crash_loop_neither_sooner_nor_much_later(
    budget: int, jitter: float, pauses: list[float]
) -> None:
    policy = RestartPolicy(mode="always", max_failures=budget)
    world = besieged(policy, jitter, pauses, takes=0.0)

    assert world.state.phase == Unavailable(f"exited with code 1; crash loop: {budget} failures in 300 s")
    took = world.state.failures[-1] - world.opened_at[0]
    schedule = sum(policy.delay * 2**number for number in range(budget - 1)) * (1 + jitter / 10)
    assert schedule - 1e-6 <= took <= schedule + budget * (max(pauses) + policy.pace) + 1e-6


@given(st.floats(0, 0.999), PAUSES, st.floats(0, 2))
def test_what_calls_wake_is_tried_soon_but_never_at_once(
    jitter: float, pauses: list[float], takes: float
) -> None:
    policy = RestartPolicy(mode="always", max_failures=8)
    world = besieged(policy, jitter, pauses, takes=takes)

    gaps = [later - sooner for sooner, later in pairwise(world.opened_at)]
    assert min(gaps) >= takes + policy.pace - 1e-6
    assert max(gaps) <= takes + policy.pace + max(pauses) + 1e-6
