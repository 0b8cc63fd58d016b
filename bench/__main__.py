"""`python -m bench`: run the suites, print one table, keep the figures as JSON when asked."""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from bench import call_suites, life_suites
from bench.environment import described, prepare
from bench.field import Ground
from bench.figures import Figure
from bench.plan import QUICK, Plan, Suite
from bench.processes import DAEMON, Stuck
from bench.table import as_json, table
from bench.targets import verdicts

CONTENDERS = ("floor", "uvfloor", "sdk", "thin", "client")
SUITES: Mapping[str, Suite] = {
    "calls": call_suites.calls,
    "listing": call_suites.listing,
    "flat": call_suites.flat,
    "start": life_suites.start,
    "death": life_suites.death,
    "exit": life_suites.leave,
}
EPILOG = """\
contenders:
  floor    an asyncio program that holds the servers' pipes itself, with callbacks
  uvfloor  the same on uvloop; only calls and listings
  sdk      the mcp SDK's Client over stdio
  thin     the daemon through its socket, by a client as thin as the floor
  client   the daemon through its socket, by supervisor.client

examples:
  python -m bench --quick
  python -m bench --only calls --contenders floor,thin --json figures.json
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="How fast the daemon is, as ratios to the floor of the same run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="under 30 s instead of under 3 min; rougher")
    parser.add_argument("--only", action="append", choices=SUITES, help="this suite; may be repeated")
    parser.add_argument("--contenders", type=_names, default=CONTENDERS, metavar="NAME,…", help="only these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument(
        "--daemon",
        type=Path,
        default=DAEMON,
        metavar="PROGRAM",
        help="measure this build of mcp-supervisor",
    )
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    chosen = text.split(",")
    if "floor" not in chosen or not set(chosen) <= set(CONTENDERS):
        raise argparse.ArgumentTypeError(f"name floor and any of {', '.join(CONTENDERS[1:])}")
    return tuple(name for name in CONTENDERS if name in chosen)


def measured(ground: Ground, plan: Plan, names: list[str]) -> list[Figure]:
    """The figures of these suites; a word about each on standard error as it ends."""
    figures: list[Figure] = []
    for name in names:
        began = time.monotonic()
        figures += SUITES[name](ground, plan)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return figures


def main() -> int:
    options = arguments()
    contenders = [name for name in options.contenders if name != "client" or find_spec("supervisor.client")]
    if "sdk" in contenders:
        prepare()
    machine = described()
    if os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        print("the machine is busy: ratios will be rough", file=sys.stderr)
    try:
        ground = Ground(contenders, options.daemon.absolute())
        figures = measured(ground, QUICK if options.quick else Plan(), options.only or list(SUITES))
    except Stuck as exc:
        print(exc, file=sys.stderr)
        return 1
    print("\n".join(f"{name}: {text}" for name, text in machine.items()), end="\n\n")
    print(table(figures, contenders), end="\n\n")
    print("\n".join(verdicts(figures)))
    if options.json is not None:
        options.json.write_text(as_json(figures, machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
