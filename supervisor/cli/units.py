"""`install-unit`: the daemon as a service of systemd."""

import json
import os
from typing import TYPE_CHECKING, Any

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.core.printable import one_line
from supervisor.errors import DONE

if TYPE_CHECKING:
    from supervisor.runtime.units import Installation


def _declare(parser: Parser) -> None:
    parser.add_argument("--user", action="store_true", help="a service of yours, not of the system")
    parser.add_argument("--dry-run", action="store_true", help="print the units, and install nothing")


def install_unit(options: Options) -> int:
    """Write the units and have systemd start them, or show what that would be."""
    from supervisor.runtime import units

    found = units.plan(user=options.user, environ=os.environ)
    if not options.dry_run:
        units.install(found)
    if options.json:
        print(json.dumps(_as_object(found, dry_run=options.dry_run), indent=2))
    elif options.dry_run:
        print(found)
    else:
        for path in found.files:
            print(f"installed: {one_line(str(path))}")
    return DONE


def _as_object(found: "Installation", *, dry_run: bool) -> dict[str, Any]:
    return {
        "files": {str(path): text for path, text in found.files.items()},
        "commands": [list(command) for command in found.commands],
        "dryRun": dry_run,
    }


INSTALL_UNIT = Verb(
    "install-unit",
    "install the daemon as a service of systemd, and start it",
    """\
  mcp-supervisor install-unit --dry-run       (what would be written and run)
  sudo mcp-supervisor install-unit
  mcp-supervisor install-unit --user
""",
    install_unit,
    _declare,
)
