"""`add` and `remove`: changing the configuration file without an editor.

The daemon that can be reached is asked which files it reads, so that it is one of those; it is not told of
the change: it watches its files. What is shown has its secrets blotted out.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor.cli.failures import Usage
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.core.printable import one_line, paragraphs
from supervisor.errors import DONE, SupervisorError
from supervisor.surfaces.client import SyncClient

if TYPE_CHECKING:
    from supervisor.runtime.editing import Edited


def declare_file(parser: Parser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="PATH",
        help="config file, instead of the daemon's or the usual one; the last is changed",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")


PATIENCE = 5.0
"""Seconds for the daemon to say which files it reads; without an answer the edit is made all the same."""


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """Which files count."""

    paths: Sequence[Path]
    target: Path
    """The one to change."""
    daemon: "Daemon | None"
    """The one that can be reached."""

    @property
    def read_by_daemon(self) -> bool | None:
        """Whether it reads what is changed; None when nobody is there to do so."""
        if self.daemon is None:
            return None
        return self.target.resolve() in {path.resolve() for path in self.daemon.files}


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon, and what it reads."""

    socket: str
    files: Sequence[Path]


def config_files(options: Options) -> ConfigFiles:
    """The files that were named, else those of the daemon that can be reached, else the usual ones.

    `$MCP_CONFIG_PATH` names one as `--config` does.
    """
    from supervisor.runtime.configfile import config_paths

    daemon = _daemon(options.socket)
    if daemon is not None and not options.config and not os.environ.get("MCP_CONFIG_PATH"):
        writable = [path for path in daemon.files if _is_writable(path)]
        return ConfigFiles(daemon.files, (writable or daemon.files)[-1], daemon)
    paths = config_paths(options.config, os.environ)
    return ConfigFiles(paths, paths[-1], daemon)


def _daemon(socket: str | None) -> Daemon | None:
    try:
        with SyncClient(socket, connect_timeout=PATIENCE) as client:
            told = client.request("supervisor/info", timeout=PATIENCE)
            files = [Path(file["path"]) for file in told.get("configFiles", ())]
    except SupervisorError:
        return None
    return Daemon(client.path, files) if files else None


def _is_writable(path: Path) -> bool:
    """Whether the file can be replaced, or created together with its directories."""
    target = path.resolve()
    there = next(parent for parent in target.parents if parent.exists())
    return os.access(there, os.W_OK | os.X_OK) and (not target.exists() or os.access(target, os.W_OK))


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

    files = config_files(options)
    edited = add(files.target, {options.name: entry}, dry_run=options.dry_run)
    report(edited, files, options, {"added": [options.name]})
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
The file is that of the daemon at --socket, which starts the server at once;
without a daemon, the usual one. A daemon looks for files from its own
directory, so write paths in full.
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

    files = config_files(options)
    edited = remove(files.target, options.name, dry_run=options.dry_run)
    report(edited, files, options, {"removed": [options.name]})
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


def report(edited: "Edited | None", files: ConfigFiles, options: Options, told: Mapping[str, Any]) -> None:
    """Print what was done to the file, or would be; a person is told nothing when that is nothing."""
    if options.json:
        read = {"readByDaemon": files.read_by_daemon}
        done = {"path": str(edited.path), "difference": edited.difference, **read} if edited else {}
        print(json.dumps({**told, **done, "dryRun": options.dry_run}, indent=2))
    elif edited is not None:
        print(paragraphs(edited.difference), end="")
        print(f"{one_line(str(edited.path))} {'would be' if options.dry_run else 'is'} changed", flush=True)
        if note := _note(files, options):
            print(f"mcp-supervisor: {one_line(note)}", file=sys.stderr)


def _note(files: ConfigFiles, options: Options) -> str | None:
    """What keeps a daemon from seeing the change, where one was to be expected."""
    if files.daemon is not None and not files.read_by_daemon:
        read = " and ".join(map(str, files.daemon.files))
        socket = files.daemon.socket
        return f"the daemon at {socket} does not read this file, so it will not see this; it reads {read}"
    if files.daemon is None and options.socket is not None:
        return f"no daemon answers at {options.socket}; one that reads this file takes it up when it starts"
    return None
