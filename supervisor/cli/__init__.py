"""The command `mcp-supervisor`: asks the daemon and prints.

It starts fast, so nothing here imports anyio, msgspec or mcp; the verbs that need more import it
themselves. Every failure becomes a sentence and an exit status in one place, `main`.
"""

import errno
import itertools
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

from supervisor.cli.failures import tell
from supervisor.cli.parser import parse
from supervisor.errors import SupervisorError

INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""
NO_READER = 141
"""What a shell reports for a program whose reader went away."""


def entry() -> None:
    """Run as a program."""
    _mend_streams()
    status = main(sys.argv[1:])
    try:
        sys.stderr.flush()
    except OSError:  # no room for the log; that is no reason to fail
        _let_go_of(sys.stderr)
    sys.exit(status)


def main(argv: Sequence[str]) -> int:
    """Do what the words ask for and return the exit status."""
    try:
        status = _act(argv)
        print(end="", flush=True)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of(sys.stdout)
        return NO_READER
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _let_go_of(sys.stdout)
        return tell(
            SupervisorError("cannot print all of it: there is no room left; make some"), as_json=False
        )
    return status


def _act(argv: Sequence[str]) -> int:
    try:
        command = parse(argv)
        return command()
    except SystemExit as end:  # argparse, after it printed its help
        return int(end.code or 0)
    except SupervisorError as error:
        # What stands after `--` is for another program.
        ours = itertools.takewhile(lambda word: word != "--", argv)
        return tell(error, as_json="--json" in ours)


def _mend_streams() -> None:
    """Let neither a closed stream nor a poor locale turn an answer into a traceback."""
    sys.stdin = sys.stdin or _nowhere()
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, TextIOWrapper)
        stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    from pathlib import Path

    return Path(os.devnull).open("r+")


def _let_go_of(stream: TextIO) -> None:
    """Keep Python's last flush from complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
