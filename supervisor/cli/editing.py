"""`add`, `remove` and `import`: changing the configuration file without an editor.

The daemon is not asked: it watches its files and takes up what changed. What is shown never holds the value
of a variable or a header.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor.cli.failures import Usage
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import DIM, GREEN, YELLOW, Column, coloured, screen_width, table
from supervisor.core.printable import one_line, paragraphs
from supervisor.errors import DONE, FAILED

if TYPE_CHECKING:
    from supervisor.core.imports import Offer
    from supervisor.runtime.editing import Edited
    from supervisor.runtime.importing import Found

STATE_COLOURS = {"new": GREEN, "exists": DIM, "unusable": YELLOW}
PROGRAMS = ("claude", "claude-code", "cursor", "vscode", "opencode", "codex")
"""As `core.imports` has them, which takes too long to import for a completion."""


def _declare_file(parser: Parser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="PATH",
        help="config file, instead of the usual one; the last that is given is changed",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")


def _files(options: Options) -> Sequence[Path]:
    """The configuration files; the last one is the one to change."""
    from supervisor.runtime.configfile import config_paths

    return config_paths(options.config, os.environ)


# Adding one.


def _declare_add(parser: Parser) -> None:
    parser.usage = (
        f"{parser.prog} NAME [OPTION ...] -- COMMAND [ARGUMENT ...]\n"
        f"       {parser.prog} NAME [OPTION ...] --url URL [--header KEY=VALUE ...]"
    )
    parser.set_defaults(takes_command=True)
    parser.add_argument("name", metavar="NAME", help="what the server shall be called")
    parser.add_argument("--url", metavar="URL", help="where a Streamable HTTP server answers")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="header of requests; repeatable",
    )
    _declare_file(parser)


def add(options: Options) -> int:
    """Write a server into the configuration file."""
    entry = _entry(options)
    from supervisor.runtime.editing import add

    edited = add(_files(options)[-1], {options.name: entry}, dry_run=options.dry_run)
    _report(edited, options, {"added": [options.name]})
    return DONE


def _entry(options: Options) -> dict[str, Any]:
    """What was typed, as the configuration file says it.

    Raises:
        Usage: it is neither one command nor one address.
    """
    if bool(options.command) == (options.url is not None):
        raise Usage("cannot add a server without either '-- COMMAND' or '--url URL'; give one of them")
    if options.url is not None:
        headers = dict(_header(text) for text in options.header)
        return {"url": options.url, **({"headers": headers} if headers else {})}
    if options.header:
        raise Usage("cannot send a header to a command; '--header' goes with '--url'")
    program, *arguments = options.command
    return {"command": program, **({"args": arguments} if arguments else {})}


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        # What was typed may be the secret itself.
        raise Usage("cannot read a header without a name and '='; write --header KEY=VALUE")
    return name, value


ADD = Verb(
    "add",
    "add a server to the configuration file",
    """\
  mcp-supervisor add clock -- uvx mcp-server-time --local-timezone UTC
  mcp-supervisor add docs --url https://mcp.context7.com/mcp
  mcp-supervisor add gh --url https://api.githubcopilot.com/mcp/ \\
      --header 'Authorization=Bearer ${cred:github-token}'
A running daemon starts it at once. It looks for files from its own directory,
so write paths in full.
""",
    add,
    _declare_add,
)


# Removing one.


def _declare_remove(parser: Parser) -> None:
    parser.add_argument("name", metavar="SERVER", help="name of a server in that file")
    _declare_file(parser)


def remove(options: Options) -> int:
    """Take a server out of the configuration file."""
    from supervisor.runtime.editing import remove

    edited = remove(_files(options)[-1], options.name, dry_run=options.dry_run)
    _report(edited, options, {"removed": [options.name]})
    return DONE


REMOVE = Verb(
    "remove",
    "remove a server from the configuration file",
    """\
  mcp-supervisor remove files --dry-run
  mcp-supervisor remove files
A running daemon stops it. `disable` stops a server and keeps its entry.
""",
    remove,
    _declare_remove,
)


# Taking over those of other programs.


def _declare_import(parser: Parser) -> None:
    parser.add_argument(
        "--from", dest="source", metavar="SOURCE", help=f"{', '.join(PROGRAMS)}, or a file; else all"
    )
    parser.add_argument("--all", action="store_true", help="add every new one, without asking")
    _declare_file(parser)


def take_over(options: Options) -> int:
    """Show the servers of other programs, and add those that are wanted."""
    from supervisor.runtime.configfile import load
    from supervisor.runtime.editing import add
    from supervisor.runtime.importing import find

    paths = _files(options)
    existing = load(paths, os.environ).servers
    found = find(options.source, os.environ, existing=existing, project=Path.cwd())
    if not options.json:
        _show(found)
    picked = _picked([offer for offer in found.offers if offer.state == "new"], options)
    entries = {offer.name: offer.entry for offer in picked}
    edited = add(paths[-1], entries, dry_run=options.dry_run) if entries else None
    _report(edited, options, {**_as_object(found), "added": list(entries)})
    return FAILED if found.problems else DONE


def _picked(new: "Sequence[Offer]", options: Options) -> "Sequence[Offer]":
    """All, those that a person says yes to, or none where nobody can be asked."""
    if options.all:
        return new
    if options.json:
        return ()
    if sys.stdin.isatty():
        return [offer for offer in new if _wanted(offer)]
    if new:
        print(f"{len(new)} can be added; --all does that")
    return ()


def _wanted(offer: "Offer") -> bool:
    question = f"add {one_line(offer.name)} from {one_line(_from_home(offer.source))}? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _from_home(path: str) -> str:
    """The path as a shell would take it, which is shorter."""
    home = os.environ.get("HOME", "").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else path


def _show(found: "Found") -> None:
    for line in _lines(found, width=screen_width(), colour=coloured()):
        print(line)
    for problem in found.problems:
        print(f"problem: {one_line(problem)}", file=sys.stderr)


def _lines(found: "Found", *, width: int, colour: bool) -> Iterator[str]:
    columns = (
        Column("SERVER", most=30),
        Column("STATE", colours=STATE_COLOURS if colour else {}),
        Column("SOURCE", most=60),
        Column("NOTE"),
    )
    rows = [(offer.name, offer.state, _from_home(offer.source), offer.reason) for offer in found.offers]
    if rows:
        yield from table(columns, rows, width=width)
    else:
        yield f"no servers found; {len(found.files)} files of other programs are here"


def _as_object(found: "Found") -> dict[str, Any]:
    return {
        # Not their entries, which hold secrets.
        "offers": [
            {"name": offer.name, "source": offer.source, "state": offer.state, "reason": offer.reason}
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
The files of the other programs stay as they are.
""",
    take_over,
    _declare_import,
)


# What all three say.


def _report(edited: "Edited | None", options: Options, told: Mapping[str, Any]) -> None:
    """Print what was done to the file, or would be; a person is told nothing when that is nothing."""
    if options.json:
        done = {"path": str(edited.path), "difference": edited.difference} if edited is not None else {}
        print(json.dumps({**told, **done, "dryRun": options.dry_run}, indent=2))
    elif edited is not None:
        print(paragraphs(edited.difference), end="")
        print(f"{one_line(str(edited.path))} {'would be' if options.dry_run else 'is'} changed")
