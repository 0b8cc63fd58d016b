"""The promises of the daemon, held against the kernel and against each other while nothing is asked of it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.e2e.support import Client, Json, until
from tests.soak.callers import Ledger
from tests.soak.world import CRASHING, World

CALM = 60.0
"""Seconds in which everything must have come to rest when nobody wants anything."""
UP = ("connected", "idle")
"""The states of a server that answers."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the daemon holds while all its servers are stopped."""

    descriptors: int
    tasks: float


def at_rest(world: World, wanted: Collection[str]) -> str:
    """What is not as it should be while nothing happens, in these states; empty when all is well."""
    states, runs = world.states(), world.runs()
    with_process = {name for name, state in states.items() if state["pid"] is not None}
    if stray := runs.keys() - with_process:
        return f"processes of servers that do not run: {sorted(stray)}"
    if missing := with_process - runs.keys():
        return f"servers whose process is gone: {sorted(missing)}"
    if many := [name for name, serials in runs.items() if len(serials) > 1]:
        return f"two runs at once: {many}"
    if zombies := world.zombies():
        return f"zombies: {zombies}"
    if waiting := [name for name, state in states.items() if state["pending"]]:
        return f"calls under way that nobody waits for: {waiting}"
    if unfit := in_other_states(states, wanted):
        return f"servers that are not {' or '.join(wanted)}: {unfit}"
    return _metrics_differ(world, with_process)


def in_other_states(servers: Mapping[str, Json], wanted: Collection[str]) -> dict[str, str]:
    """The state of each server that is in none of these, but for the one that crashes by design."""
    states = {name: str(server["state"]) for name, server in servers.items() if name != CRASHING}
    return {name: state for name, state in states.items() if state not in wanted}


def _metrics_differ(world: World, with_process: set[str]) -> str:
    metrics, states = world.metrics(), world.states()
    for name, state in states.items():
        if metrics["server_up", name] != (state["state"] == "connected"):
            return f"metrics call {name} up: {metrics['server_up', name]}, status calls it {state['state']}"
        if (metrics.get(("server_processes", name), 0) > 0) != (name in with_process):
            return f"metrics and status do not agree whether {name} has a process"
        if metrics.get(("tools", name), 0) != state["tools"]:
            return f"metrics count {metrics.get(('tools', name))} tools of {name}, status {state['tools']}"
    return ""


def check_rest(world: World, wanted: Collection[str] = UP) -> None:
    """Note what is still wrong after everything had time to come to rest."""
    try:
        until(lambda: not at_rest(world, wanted), seconds=CALM)
    except AssertionError:
        world.broken.append(f"at rest: {at_rest(world, wanted)}")
        world.orphans += len(world.strays())
        world.undead += len(world.zombies())


def roll_call(world: World, names: Iterable[str]) -> Counter[str]:
    """Ask each of these servers for one answer, which must be good; how these calls ended."""
    with Client(world.daemon.socket) as client:
        ledger = Ledger(client, world.broken, troubled=False)
        for name in names:
            ledger.ask(f"{name}_echo", {"text": "here"})
        ledger.settle()
        return ledger.ends


def baseline(world: World) -> Baseline:
    """Stop every server, and count what is left when the last process is gone."""
    for name in world.states():
        world.operator.reply("servers/stop", server=name)
    check_rest(world, ("stopped",))
    return Baseline(world.descriptors(), world.tasks())


def compare(world: World, before: Baseline, after: Baseline) -> None:
    if after.descriptors != before.descriptors:
        world.broken.append(f"descriptors: {before.descriptors} before, {after.descriptors} after")
    if after.tasks != before.tasks:
        world.broken.append(f"tasks: {before.tasks:g} before, {after.tasks:g} after")


def compare_calls(world: World, ends: Counter[str], *, abandoned: int) -> None:
    """What clients were told must be what the daemon counted; of calls whose client left, it alone knows."""
    samples = world.metrics().items()
    counted = {outcome: number for (name, outcome), number in samples if name == "tool_calls_total"}
    world.broken.extend(miscounted(ends, counted, abandoned=abandoned))


def miscounted(told: Counter[str], counted: Mapping[str, float], *, abandoned: int) -> Iterator[str]:
    """What cannot be so: what clients were told of is counted, and besides only what was abandoned."""
    for outcome in sorted(told.keys() | counted.keys()):
        heard, number = told[outcome], counted.get(outcome, 0)
        if not heard <= number <= heard + abandoned:
            yield f"clients heard of {heard} calls that ended {outcome}, and the daemon counted {number:g}"
    if sum(counted.values()) > told.total() + abandoned:
        yield f"{told.total()} calls ended and {abandoned} were abandoned, and the daemon counted more"
