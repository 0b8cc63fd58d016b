"""`import`: taking over the servers that other programs have configured.

What each of them would start is shown before anybody says yes to it, without its secrets. The files of the
other programs are only read.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor.cli.editing import config_files, declare_file, report
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import DIM, GAP, GREEN, YELLOW, cells, coloured, fit, paint, screen_width, wrap
from supervisor.core.printable import one_line
from supervisor.errors import DONE, FAILED

if TYPE_CHECKING:
    from supervisor.core.imports import Offer
    from supervisor.runtime.importing import Found

STATE_COLOURS = {"new": GREEN, "incomplete": YELLOW, "exists": DIM, "unusable": YELLOW}
PROGRAMS = ("claude", "claude-code", "cursor", "vscode", "opencode", "codex")
"""As `core.imports` has them, which takes too long to import for a completion."""
LONGEST_NAME = 30
TITLES = ("SERVER", "STATE", "WHAT IT STARTS, OR WHY NOT")


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "--from", dest="source", metavar="SOURCE", help=f"{', '.join(PROGRAMS)}, or a file; else all"
    )
    parser.add_argument("--all", action="store_true", help="add every new one, without asking")
    declare_file(parser)


def take_over(options: Options) -> int:
    """Show the servers of other programs, and add those that are wanted."""
    from supervisor.runtime.configfile import load
    from supervisor.runtime.editing import add
    from supervisor.runtime.importing import find

    files = config_files(options)
    existing = load(files.paths, os.environ).servers
    found = find(options.source, os.environ, existing=existing, project=Path.cwd())
    if not options.json:
        _show(found)
    entries = {offer.name: offer.entry for offer in _picked(found.offers, options)}
    edited = add(files.target, entries, dry_run=options.dry_run) if entries else None
    report(edited, files, options, {**_as_object(found), "added": list(entries)})
    return FAILED if found.problems else DONE


def _picked(offers: "Sequence[Offer]", options: Options) -> "Sequence[Offer]":
    """All that are new, those that a person says yes to, or none where nobody can be asked."""
    new = [offer for offer in offers if offer.state == "new"]
    if options.all:
        return new
    if options.json:
        return ()
    if sys.stdin.isatty():
        return [offer for offer in offers if offer.state in ("new", "incomplete") and _wanted(offer)]
    if new:
        print(f"{len(new)} can be added; --all does that")
    return ()


def _wanted(offer: "Offer") -> bool:
    question = f"add {offer.name} from {_from_home(offer.source)}, which is: {_meaning(offer)}"
    print(f"{one_line(question)}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _meaning(offer: "Offer") -> str:
    """What it would start, and what stands in the way."""
    match offer.state:
        case "new":
            return offer.launch
        case "incomplete":
            return f"{offer.launch} ({offer.reason})"
        case _:
            return _from_home(offer.reason)


def _from_home(text: str) -> str:
    """The text with paths as a shell would take them, which is shorter."""
    home = os.environ.get("HOME", "").rstrip("/")
    return re.sub(rf"(?<!\S){re.escape(home)}/", "~/", text) if home else text


def _show(found: "Found") -> None:
    for line in _lines(found.offers, width=screen_width(), colour=coloured()):
        print(line)
    if not found.offers:
        print(f"no servers found; {len(found.files)} files of other programs are here")
    for problem in found.problems:
        print(f"problem: {one_line(problem)}", file=sys.stderr)


def _lines(offers: "Sequence[Offer]", *, width: int, colour: bool) -> Iterator[str]:
    """The offers below the file that each is from; what does not fit into a line is continued in the next."""
    rows = [(fit(one_line(offer.name), LONGEST_NAME), offer.state) for offer in offers]
    names, states = (max((cells(row[at]) for row in [TITLES, *rows]), default=0) for at in (0, 1))
    indentation = " " * (names + states + 3 * len(GAP))
    source = None
    for offer, (name, state) in zip(offers, rows, strict=True):
        if source is None:
            title, word, meaning = TITLES
            yield f"{GAP}{title:{names}}{GAP}{word:{states}}{GAP}{meaning}"
        if offer.source != source:
            yield one_line(_from_home(source := offer.source))
        first = f"{GAP}{name}{' ' * (names - cells(name))}{GAP}"
        text = one_line(_meaning(offer))
        line, *more = wrap(text, width, first=f"{first}{state:{states}}{GAP}", rest=indentation)
        painted = paint(state, STATE_COLOURS[state] if colour else None)
        yield f"{first}{painted}{line[len(first) + len(state) :]}"
        yield from more


def _as_object(found: "Found") -> dict[str, Any]:
    return {
        # Not their entries, which hold secrets.
        "offers": [
            {
                "name": offer.name,
                "source": offer.source,
                "state": offer.state,
                "reason": offer.reason,
                "launch": offer.launch,
            }
            for offer in found.offers
        ],
        "files": list(found.files),
        "problems": list(found.problems),
    }


IMPORT = Verb(
    "import",
    "add the servers that other programs have configured",
    """\
  mcp-supervisor import               (asks for each; only lists them in a pipe)
  mcp-supervisor import --from cursor --all --dry-run
  mcp-supervisor import --from ./mcp.json --all
The files of the other programs stay as they are. A server that a project has
runs in that project. One that is incomplete refers to what only an editor can
fill in, such as ${input:token}; it is added when you say so, to be completed.
""",
    take_over,
    _declare,
)
