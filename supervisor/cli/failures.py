"""How a command that failed says so: one sentence on stderr, or one object on stdout for programs."""

import json
import sys
from typing import Any

from supervisor.cli.values import array
from supervisor.core.printable import one_line
from supervisor.errors import INVALID_PARAMS, USAGE, ForeignError, SupervisorError

SHOWN_STDERR_LINES = 5


class Usage(SupervisorError):
    """The command line itself is wrong."""

    code = INVALID_PARAMS
    exit_status = USAGE


def tell(error: SupervisorError, *, as_json: bool) -> int:
    """Say what failed, and return the exit status for it."""
    if as_json:
        print(json.dumps({"error": as_object(error)}, indent=2))
    else:
        print(f"mcp-supervisor: {one_line(sentence(error))}", file=sys.stderr)
        for line in _last_words(error):
            print(f"  | {one_line(line)}", file=sys.stderr)
    return error.exit_status


def as_object(error: SupervisorError) -> dict[str, Any]:
    """The error as JSON-RPC writes it."""
    code = error.answered_code if isinstance(error, ForeignError) else error.code
    known = {"data": dict(error.data)} if error.data else {}
    return {"code": code, "message": str(error), **known}


def sentence(error: SupervisorError) -> str:
    """The message; a server's own gets the beginning that ours have."""
    message = str(error)
    return message if message.startswith("cannot") else f"cannot do that, the answer is an error: {message}"


def _last_words(error: SupervisorError) -> list[str]:
    """The end of the server's stderr, where the error carries it."""
    said = error.data.get("stderr")
    lines = said.splitlines() if isinstance(said, str) else array(said)
    return [str(line) for line in lines[-SHOWN_STDERR_LINES:]]
