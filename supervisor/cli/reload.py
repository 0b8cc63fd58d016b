"""`reload`: have the daemon read its configuration again, and say what that did or would do."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import GREEN, RED, YELLOW, Column, coloured, screen_width, table
from supervisor.core.printable import one_line
from supervisor.errors import BAD_CONFIG, DONE, FAILED
from supervisor.surfaces.client import SyncClient
from supervisor.surfaces.exchange import chosen

LONGEST_RELOAD = 3600.0
"""Seconds; new servers start and replaced ones finish their calls meanwhile."""
KIND_COLOURS = {"add": GREEN, "remove": RED, "replace": YELLOW, "retune": YELLOW}


def _declare(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def reload(options: Options) -> int:
    """Reload; success means that all of it worked.

    Raises:
        BadConfig: the configuration cannot be used, and nothing was changed.
    """
    with SyncClient(options.socket) as client:
        asked = chosen(dryRun=options.dry_run)
        answer = client.request("supervisor/reload", asked, timeout=LONGEST_RELOAD)
    if options.json:
        print(json.dumps(answer, indent=2))
    else:
        for line in lines(answer, dry_run=options.dry_run, width=screen_width(), colour=coloured()):
            print(line)
    return _status(answer)


def _status(answer: Mapping[str, Any]) -> int:
    if answer["problems"]:
        return BAD_CONFIG
    return DONE if all(result == "ok" for result in answer["results"].values()) else FAILED


def lines(answer: Mapping[str, Any], *, dry_run: bool, width: int, colour: bool) -> Iterator[str]:
    """What changes, server by server; the rest as a number; and what is wrong."""
    changes = {name: kind for name, kind in answer["plan"].items() if kind != "unchanged"}
    untold = "would be done" if dry_run else "-"
    rows = [(kind, name, answer["results"].get(name, untold)) for name, kind in sorted(changes.items())]
    columns = (
        Column("CHANGE", colours=KIND_COLOURS if colour else {}),
        Column("SERVER", most=30),
        Column("RESULT"),
    )
    if rows:
        yield from table(columns, rows, width=width)
    yield f"{len(changes)} changed, {len(answer['plan']) - len(changes)} unchanged"
    yield from (f"problem: {one_line(str(problem))}" for problem in answer["problems"])


RELOAD = Verb(
    "reload",
    "read the configuration again and apply what changed",
    """\
  mcp-supervisor reload --dry-run     (what would be added, removed, replaced)
  mcp-supervisor reload
The exit status is 1 when a server failed, and 78 when a file is bad.
""",
    reload,
    _declare,
)
