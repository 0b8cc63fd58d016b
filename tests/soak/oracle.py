"""The promises of the daemon, held against the kernel and against each other while nothing is asked of it."""

from collections import Counter
from dataclasses import dataclass

from tests.e2e.support import until
from tests.soak.world import World

CALM = 60.0
"""Seconds in which everything must have come to rest when nobody wants anything."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the daemon holds while all its servers are stopped."""

    descriptors: int
    tasks: float


def at_rest(world: World) -> str:
    """What is not as it should be while nothing happens; empty when all is well."""
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
    return _metrics_differ(world, with_process)


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


def check_rest(world: World) -> None:
    """Note what is still wrong after everything had time to come to rest."""
    try:
        until(lambda: not at_rest(world), seconds=CALM)
    except AssertionError:
        world.broken.append(f"at rest: {at_rest(world)}")
        world.orphans += len(world.strays())
        world.undead += len(world.zombies())


def baseline(world: World) -> Baseline:
    """Stop every server, and count what is left when the last process is gone."""
    for name in world.states():
        world.operator.reply("servers/stop", server=name)
    check_rest(world)
    tasks = world.metrics()["tasks_running", ""]
    return Baseline(world.descriptors(), tasks)


def compare(world: World, before: Baseline, after: Baseline) -> None:
    if after.descriptors != before.descriptors:
        world.broken.append(f"descriptors: {before.descriptors} before, {after.descriptors} after")
    if after.tasks != before.tasks:
        world.broken.append(f"tasks: {before.tasks:g} before, {after.tasks:g} after")


def compare_calls(world: World, ends: Counter[str], *, abandoned: int) -> None:
    """What clients were told must be what the daemon counted; of calls whose client left, it alone knows."""
    metrics = world.metrics()
    counted = metrics.get(("tool_calls_total", "ok"), 0)
    if not ends["ok"] <= counted <= ends["ok"] + abandoned:
        world.broken.append(
            f"clients were told of {ends['ok']} good calls, and the daemon counted {counted:g}"
        )
