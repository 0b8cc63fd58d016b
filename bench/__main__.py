"""`python -m bench`: run the suites, print one table, keep the figures as JSON when asked."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from bench import call_suites, end_suites, harm_suite, life_suites
from bench.environment import described, prepare
from bench.field import BEFORE_DAEMON, Ground
from bench.figures import BARE, BARE_ON_UVLOOP, FLOOR, RELAY, SDK, Figure
from bench.peers import PEERS
from bench.peers.install import Unavailable, available
from bench.plan import LONG, QUICK, Plan, Suite
from bench.processes import DAEMON, Stuck
from bench.table import as_json, table
from bench.targets import Judgement, judged, missed, verdicts

CONTENDERS = (FLOOR, BARE, BARE_ON_UVLOOP, RELAY, SDK, *BEFORE_DAEMON)
EVERYBODY = (*CONTENDERS, *PEERS)
SUITES: Mapping[str, Suite] = {
    "sequential": call_suites.sequential,
    "calls": call_suites.calls,
    "listing": call_suites.listing,
    "flat": call_suites.flat,
    "start": life_suites.start,
    "death": life_suites.death,
    "http": life_suites.http,
    "exit": end_suites.leave,
    "harm": harm_suite.harm,
}
_WITH_PEERS = 3
EPILOG = """\
contenders:
  floor        an asyncio program that holds the servers' pipes itself, with subprocesses and streams
  bare         the same with callbacks, the least that can be done; only calls and listings
  bare-uvloop  bare on uvloop, the loop of the daemon
  relay        a blocking relay of bytes, about the least that a gateway can be; only one call at a time
  sdk          the mcp SDK's Client over stdio
  plain        the daemon through its socket, by a blocking socket without an event loop: what a script does
  thin         the same, by an asyncio client with callbacks, as thin as bare
  client       the same, by supervisor.client

peers, with --peers or by name; installed on demand into .tools/peers:
  mcporter   the daemon of mcporter through its socket
  mcp-hub    mcp-hub through its REST interface
  mcp-proxy  mcp-proxy through Streamable HTTP, one path for each server
  fastmcp    a fastmcp server that mounts a proxy of each server, through Streamable HTTP
  mcpo       mcpo through the paths of its OpenAPI applications

examples:
  python -m bench --quick
  python -m bench --only calls --contenders floor,plain --json figures.json
  python -m bench --peers
  python -m bench --only harm --long
  python -m bench --quick --contenders floor,plain,mcpo
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="How fast the daemon is, as ratios to the floor of the same run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="1.5 min instead of 8, and rougher")
    length.add_argument("--long", action="store_true", help="some 25 min, and less left to chance")
    parser.add_argument("--only", action="append", choices=SUITES, help="this suite; may be repeated")
    parser.add_argument("--contenders", type=_names, default=CONTENDERS, metavar="NAME,…", help="only these")
    parser.add_argument("--peers", action="store_true", help="and what users would take instead")
    parser.add_argument("--check", action="store_true", help="leave with status 1 when a target is missed")
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
    if "floor" not in chosen or not set(chosen) <= set(EVERYBODY):
        raise argparse.ArgumentTypeError(f"name floor and any of {', '.join(EVERYBODY[1:])}")
    return tuple(name for name in EVERYBODY if name in chosen)


def contenders_of(options: argparse.Namespace) -> list[str]:
    """Who takes part: those who were asked for and can be had."""
    asked = [*options.contenders, *(PEERS if options.peers else ())]
    peers = available(name for name in PEERS if name in asked)
    own = [name for name in options.contenders if name not in PEERS]
    if SDK in own:
        prepare()
    return [*(name for name in own if name != "client" or find_spec("supervisor.client")), *peers]


def plan_of(options: argparse.Namespace, contenders: list[str]) -> Plan:
    """How much work: with peers, who are slow, a round takes longer, so a suite may."""
    plan = QUICK if options.quick else LONG if options.long else Plan()
    return replace(plan, budget=_WITH_PEERS * plan.budget) if set(contenders) & set(PEERS) else plan


def measured(ground: Ground, plan: Plan, names: list[str]) -> list[Figure]:
    """The figures of these suites; a word about each on standard error as it ends."""
    figures: list[Figure] = []
    for name in names:
        began = time.monotonic()
        ground.out.clear()
        figures += SUITES[name](ground, plan)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return figures


def _leave(number: int, _: object) -> None:
    """End what was started, as after any other exception."""
    sys.exit(128 + number)


def report(machine: Mapping[str, str], rows: str, notes: list[str], judgements: list[Judgement]) -> str:
    """Everything on one page: the machine, the table, what to know of it, and the targets."""
    parts = [[f"{name}: {text}" for name, text in machine.items()], [rows], notes, verdicts(judgements)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def main() -> int:
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        contenders = contenders_of(options)
    except Unavailable as exc:
        print(f"cannot measure the SDK; leave it out with --contenders: {exc}", file=sys.stderr)
        return 1
    machine = described(contenders)
    if os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        print("the machine is busy: ratios will be rough", file=sys.stderr)
    ground = Ground(contenders, options.daemon.absolute())
    plan = plan_of(options, contenders)
    try:
        figures = measured(ground, plan, options.only or list(SUITES))
    except Stuck as exc:
        print(exc, file=sys.stderr)
        return 1
    machine["processor time stolen"] = str(plan.calm)
    judgements = judged(figures)
    print(report(machine, table(figures, contenders), ground.notes, judgements))
    if options.json is not None:
        options.json.write_text(as_json(figures, machine, ground.notes))
    return 1 if options.check and missed(judgements) else 0


if __name__ == "__main__":
    sys.exit(main())
