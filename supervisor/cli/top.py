"""`top`: a live view of the fleet, the broken servers first."""

import itertools
import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb, count_above_zero
from supervisor.cli.load import Load, Look, loads, total
from supervisor.cli.render import (
    DIM,
    Column,
    coloured,
    fit,
    latency,
    paint,
    rate,
    screen_width,
    size,
    table,
)
from supervisor.cli.screen import Plain, Screen, is_terminal, terminal
from supervisor.cli.status import STATE_COLOURS, broken_first, counts
from supervisor.errors import DONE
from supervisor.surfaces.client import SyncClient

REFRESH = 1.0
"""Seconds between two looks."""


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "-n", "--count", type=count_above_zero, metavar="COUNT", help="stop after this many looks, 1 s apart"
    )
    parser.add_argument("--once", action="store_const", const=1, dest="count", help="the same as -n 1")


def show_top(options: Options) -> int:
    """Look again and again, until the count is reached or the user leaves."""
    live = options.count is None and not options.json and is_terminal()
    screen: AbstractContextManager[Screen] = terminal() if live else nullcontext(Plain())
    with SyncClient(options.socket) as client:
        try:
            with screen as shown:
                _refresh(client, shown, options)
        except KeyboardInterrupt:
            pass  # the other way to leave
    return DONE


def _refresh(client: SyncClient, screen: Screen, options: Options) -> None:
    before = None
    for turn in itertools.count(1):
        now = Look(time.monotonic(), sorted(client.servers(), key=broken_first))
        figures = loads(now, before)
        if options.json:
            print(json.dumps(as_object(figures, at=time.time())), flush=True)
        else:
            clock = time.strftime("%H:%M:%S")
            screen.show(lines(now, figures, clock=clock, width=screen_width(), colour=coloured()))
        before = now
        if turn == options.count or screen.wait(REFRESH):
            return


def as_object(figures: Sequence[Load], *, at: float) -> dict[str, Any]:
    """One look, for programs."""
    servers = [{_camel(key): value for key, value in asdict(load).items()} for load in figures]
    return {"at": at, "servers": servers}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def lines(now: Look, figures: Sequence[Load], *, clock: str, width: int, colour: bool) -> list[str]:
    """The sums, and a row for each server."""
    calls = total([load.calls_per_second for load in figures])
    sums = f"{clock}  {counts(now.servers)}  {_known(calls, rate)} calls/s"
    columns = (
        Column("NAME", most=18),
        Column("STATE", colours=STATE_COLOURS if colour else {}),
        *(Column(title, right=True) for title in ("CALLS/S", "P50", "P99", "PEND", "RSS", "CPU")),
        Column(""),
    )
    rows = [_row(load) for load in figures]
    body = table(columns, rows, width=width) if rows else ["no servers"]
    return [paint(fit(sums, width), DIM if colour else None), *body]


def _row(load: Load) -> tuple[str, ...]:
    return (
        load.name,
        load.state,
        _known(load.calls_per_second, rate),
        _known(load.p50, latency),
        _known(load.p99, latency),
        _known(load.pending, str),
        _known(load.rss, size),
        _known(load.cpu, "{:.0%}".format),
        "",
    )


def _known(value: Any, shown: Any) -> str:
    return "-" if value is None else str(shown(value))


TOP = Verb(
    "top",
    "watch the servers at work: calls, latency, memory, processor",
    """\
  mcp-supervisor top                  (q or Ctrl-C to leave)
  mcp-supervisor top --once
  mcp-supervisor top -n 10 --json     (one object per line)
P50 and P99 are of recent calls; CPU is of one processor, for all processes.
""",
    show_top,
    _declare,
)
