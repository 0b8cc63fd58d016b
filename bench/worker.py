"""A contender in a process of its own, told by lines of JSON on its standard input what to do next.

Separate processes keep one contender's garbage, threads and loop away from the figures of another; between
commands a worker sleeps. Usage: `python -m bench.worker CONTENDER FLEET`, with the fleet as JSON.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from bench.contender import Fleet
from bench.figures import BARE, BARE_ON_UVLOOP
from bench.load import CallFailed
from bench.peers import PEERS

CONTENDERS = {
    **{name: (module, "Contender") for name, module in PEERS.items()},
    "floor": ("bench.floor", "Floor"),
    BARE: ("bench.bare", "Bare"),
    BARE_ON_UVLOOP: ("bench.bare", "Bare"),
    "relay": ("bench.relay", "Relay"),
    "sdk": ("bench.sdk", "Sdk"),
    "plain": ("bench.plain", "Plain"),
    "thin": ("bench.thin", "Thin"),
    "client": ("bench.library", "Library"),
}
READY = "ready"
"""Answered at once: all imports are done."""
COMMANDS = frozenset(
    {
        *(READY, "open", "close", "in_turn", "at_once", "at_rate"),
        *("listings", "differences", "text", "death", "noticed"),
    }
)


async def obey(contender: Any) -> None:
    """Do what each line says and answer with a line, until told to close or left alone."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, options = json.loads(line)
        assert name in COMMANDS, f"cannot do {name!r}"
        sys.stdout.write(json.dumps(await came_to(contender, name, options)) + "\n")
        sys.stdout.flush()
        if name == "close":
            return


async def came_to(contender: Any, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a command, or in words why there is none. Garbage is collected before, not meanwhile."""
    if name == READY:
        return {"answer": None}
    gc.collect()
    try:
        return {"answer": await getattr(contender, name)(**options)}
    except CallFailed as exc:
        return {"failure": f"{name}: {exc}"}
    except TimeoutError:
        return {"failure": f"{name}: no end in time"}


def main() -> None:
    name, fleet = sys.argv[1:]
    module, kind = CONTENDERS[name]
    contender = getattr(import_module(module), kind)(Fleet(**json.loads(fleet)))
    gc.disable()
    loops = import_module("uvloop").new_event_loop if name == BARE_ON_UVLOOP else None
    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(obey(contender))


if __name__ == "__main__":
    main()
