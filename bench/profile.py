"""`python -m bench.profile`: where the daemon's time goes under load, sampled by py-spy from outside.

Prints the share of samples that each function was on top of the stack (`self`) and anywhere on it (`total`).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.environment import prepare
from bench.field import Entrant, Ground, fleet_of
from bench.load import ECHO, ECHO_ARGUMENTS
from bench.processes import DAEMON, TOOLS_PYTHON

_CALLS = 2000
_SAMPLES_PER_SECOND = 500


def load(entrant: Entrant, in_flight: int, seconds: float) -> int:
    """Call for that long; returns how often."""
    made, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        if in_flight == 1:
            entrant.ask("in_turn", tool=ECHO, arguments=ECHO_ARGUMENTS, times=_CALLS)
        else:
            entrant.ask("at_once", servers=1, in_flight=in_flight, times=_CALLS)
        made += _CALLS
    return made


def sampled(entrant: Entrant, in_flight: int, seconds: int) -> list[str]:
    """The stacks seen under load, one line each: frames, outermost first, and how often."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        stacks = Path(directory) / "stacks"
        spy = [str(TOOLS_PYTHON.with_name("py-spy")), "record", "--nonblocking", "--format", "raw"]
        options = ["--rate", str(_SAMPLES_PER_SECOND), "--duration", str(seconds), "--output", str(stacks)]
        with subprocess.Popen(
            [*spy, *options, "--pid", str(entrant.holder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            load(entrant, in_flight, seconds + 1.0)
            _, complaint = process.communicate(timeout=seconds + 30)
        if not stacks.exists():
            raise SystemExit(f"cannot sample the daemon: {complaint.decode().strip()}")
        return stacks.read_text().splitlines()


def shares(stacks: Iterable[str]) -> list[tuple[str, float, float]]:
    """Each function with its share of samples on top of the stack and anywhere on it; the largest first."""
    on_top: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    for stack in stacks:
        text, _, count = stack.rpartition(" ")
        frames = [frame.rpartition(":")[0] or frame for frame in text.split(";")]
        on_top[frames[-1]] += int(count)
        anywhere.update({frame: int(count) for frame in frames})
    every = on_top.total() or 1
    return [(name, on_top[name] / every, total / every) for name, total in anywhere.most_common()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--in-flight", type=int, default=32, help="calls under way at a time (32)")
    parser.add_argument("--seconds", type=int, default=8, help="how long to sample (8)")
    parser.add_argument("--top", type=int, default=30, help="how many functions to print (30)")
    parser.add_argument("--daemon", type=Path, default=DAEMON, metavar="PROGRAM")
    options = parser.parse_args()
    prepare()
    with Ground(["thin"], options.daemon.absolute()).enter("thin", fleet_of(1)) as entrant:
        load(entrant, options.in_flight, 1.0)
        found = shares(sampled(entrant, options.in_flight, options.seconds))
    print("  self  total  function")
    for name, on_top, anywhere in sorted(found, key=lambda row: -row[1])[: options.top]:
        print(f"{on_top:6.1%} {anywhere:6.1%}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
