"""`add` and `remove`: changing the configuration file without an editor.

The daemon is not asked: it watches its files and takes up what changed. What is shown never holds the value
of a variable or a header.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor.cli.failures import Usage
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.core.printable import one_line, paragraphs
from supervisor.errors import DONE

if TYPE_CHECKING:
    from supervisor.runtime.editing import Edited


def declare_file(parser: Parser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="PATH",
        help="config file, instead of the usual one; the last that is given is changed",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")


def config_files(options: Options) -> Sequence[Path]:
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
    declare_file(parser)


def add(options: Options) -> int:
    """Write a server into the configuration file."""
    entry = _entry(options)
    from supervisor.runtime.editing import add

    edited = add(config_files(options)[-1], {options.name: entry}, dry_run=options.dry_run)
    report(edited, options, {"added": [options.name]})
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
    declare_file(parser)


def remove(options: Options) -> int:
    """Take a server out of the configuration file."""
    from supervisor.runtime.editing import remove

    edited = remove(config_files(options)[-1], options.name, dry_run=options.dry_run)
    report(edited, options, {"removed": [options.name]})
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


# What `add`, `remove` and `import` say.


def report(edited: "Edited | None", options: Options, told: Mapping[str, Any]) -> None:
    """Print what was done to the file, or would be; a person is told nothing when that is nothing."""
    if options.json:
        done = {"path": str(edited.path), "difference": edited.difference} if edited is not None else {}
        print(json.dumps({**told, **done, "dryRun": options.dry_run}, indent=2))
    elif edited is not None:
        print(paragraphs(edited.difference), end="")
        print(f"{one_line(str(edited.path))} {'would be' if options.dry_run else 'is'} changed")
