"""`events`: the fleet's news as they come, one line each, until Ctrl-C."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import DIM, coloured, moment, paint
from supervisor.cli.status import STATE_COLOURS
from supervisor.core.printable import one_line
from supervisor.errors import DONE
from supervisor.surfaces.client import Subscription
from supervisor.surfaces.exchange import chosen

KINDS = ("transition", "catalog", "reload", "log")

Event = Mapping[str, Any]


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "--kind",
        action="append",
        choices=KINDS,
        help="only news of this kind; repeatable (transition, catalog and reload)",
    )


def show_events(options: Options) -> int:
    """Print the news; ends when the daemon does, or the reader."""
    with Subscription(options.socket, "events/subscribe", chosen(kinds=options.kind)) as news:
        for event in news:
            line = json.dumps(event) if options.json else event_line(event, colour=coloured())
            print(line, flush=True)
    return DONE


def event_line(event: Event, *, colour: bool) -> str:
    """When it happened, whom it is about, and what it is."""
    if event["kind"] == "lost":
        return f"(lost {event['count']} events: they came faster than they were read)"
    stamp = paint(moment(event["at"]), DIM if colour else None)
    if event["kind"] == "transition":
        phase = paint(event["phase"], STATE_COLOURS.get(event["state"]) if colour else None)
        change = f"{one_line(event['server'])}: {event['before']} -> {phase}"
        return f"{stamp} {change}: {one_line(event['reason'])}"
    return f"{stamp} {one_line(_happening(event))}"


def _happening(event: Event) -> str:
    match event:
        case {"kind": "catalog", "generation": number, "changed": changed, "removed": removed}:
            causes = ", ".join(event.get("causes", ()))
            difference = f"{_names('+', changed)}{_names('-', removed)}" or "as before "
            return f"catalog {number}: {difference}({causes})"
        case {"kind": "reload", "ok": ok, "plan": plan, "problems": problems}:
            changes = [f"{kind} {name}" for name, kind in plan.items() if kind != "unchanged"]
            told = "; ".join((", ".join(changes) or "nothing changed", *problems))
            return f"reload {'done' if ok else 'failed'}: {told}"
        case {"kind": "log", "server": server, "text": text}:
            return f"{server} | {text}"
        case _:
            return json.dumps(event)


def _names(sign: str, names: Sequence[str]) -> str:
    shown = 3
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{' '.join(sign + name for name in names[:shown])}{more} " if names else ""


EVENTS = Verb(
    "events",
    "print the fleet's news as they come: servers, tools, reloads",
    """\
  mcp-supervisor events
  mcp-supervisor events --kind transition --kind log
  mcp-supervisor events --json | jq -r 'select(.state == "unavailable").server'
""",
    show_events,
    _declare,
)
