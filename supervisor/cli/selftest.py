"""`selftest`: the promises of this program, tried on this machine with servers that misbehave.

Owns the temporary directory and what is shown; what is tried is in `supervisor.selftest`, imported late.
"""

import json
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from supervisor.cli.failures import Usage
from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.cli.render import DIM, GREEN, RED, coloured, fit, paint, screen_width
from supervisor.errors import DONE, FAILED, SupervisorError

if TYPE_CHECKING:
    from supervisor.selftest.case import Case, Result
    from supervisor.selftest.report import Report

CLEAR = "\r\x1b[K"
SPEED = "P5"
"""What asks for the measurement, which is no case."""
LONGEST_DIRECTORY = 60
"""Bytes; a socket below it has a path that the system allows."""
MARKS = {True: ("kept", GREEN), False: ("BROKEN", RED), None: ("untried", DIM)}


def _declare(parser: Parser) -> None:
    parser.add_argument("rest", nargs="*", metavar="CASE", help="only these; all of them when none is named")


def run(options: Options) -> int:
    """Try everything in a temporary directory, which stays for a look when a promise was broken.

    Raises:
        Usage: there is no such case.
    """
    from shutil import rmtree

    cases, speed = _chosen(options.rest)
    progress = Progress(len(cases) + speed, silent=options.json)
    directory, keep = _directory(), False
    try:
        with _ended_by_signals():
            report = _performed(cases, directory, progress, speed=speed)
        keep = not report.ok
    finally:
        progress.close()
        if not keep:
            rmtree(directory, ignore_errors=True)
    kept = str(directory) if keep else None
    found = {**report.as_object(), "directory": kept}
    print(json.dumps(found, indent=2) if options.json else "\n".join(lines(report, kept)))
    return DONE if report.ok else FAILED


def _chosen(names: Sequence[str]) -> "tuple[Sequence[Case], bool]":
    from supervisor.selftest.table import CASES

    known = {case.id: case for case in CASES}
    unknown = sorted(set(names) - known.keys() - {SPEED})
    if unknown:
        raise Usage(f"cannot find {', '.join(unknown)}; the cases are {', '.join([*known, SPEED])}")
    chosen = [case for case in CASES if not names or case.id in names]
    return chosen, not names or SPEED in names


def _directory() -> Path:
    from tempfile import mkdtemp

    directory = Path(mkdtemp(prefix="mcp-selftest-"))
    if len(os.fsencode(directory)) > LONGEST_DIRECTORY:
        directory.rmdir()
        raise SupervisorError(
            f"cannot put a socket below {directory}: its path is too long; set TMPDIR to a shorter one"
        )
    return directory


def _performed(cases: "Sequence[Case]", directory: Path, progress: "Progress", *, speed: bool) -> "Report":
    from supervisor.selftest import program

    return program.run(cases, directory, speed=speed, on_begin=progress.begin, on_end=progress.end)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let a polite signal end this the way an error does, so that nothing is left."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, _leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


class Progress:
    """On a terminal one line that changes, elsewhere a line for each case; what is amiss stays in either."""

    def __init__(self, total: int, *, silent: bool) -> None:
        self._total, self._silent, self._number = total, silent, 0
        self._live = not silent and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def begin(self, text: str) -> None:
        self._number += 1
        if self._live:
            shown = fit(f"{self._number}/{self._total} {text}", screen_width() - 1)
            print(f"{CLEAR}{shown}", end="", flush=True)

    def end(self, result: "Result") -> None:
        if self._silent or (self._live and not result.complaints and not result.forgiven):
            return
        self.close()
        print("\n".join(_account(result)), flush=True)

    def close(self) -> None:
        """Leave the line as it was found."""
        if self._live:
            print(CLEAR, end="", flush=True)


def _account(result: "Result") -> list[str]:
    case = result.case
    mark = "FAILED" if result.complaints else "ok"
    first = f"{mark:6} {case.id:4} {case.given}; {case.when}: {case.then} ({result.seconds:.1f} s)"
    forgiven = [f"       tried again, as {complaint.sentence}" for complaint in result.forgiven]
    return [first, *forgiven, *(f"       {complaint.sentence}" for complaint in result.complaints)]


def lines(report: "Report", directory: str | None) -> list[str]:
    """The verdicts, for people."""
    colour, shown = coloured(), list[str]()
    for verdict in report.verdicts():
        word, paint_with = MARKS[verdict.kept]
        mark = paint(f"{word:8}", paint_with if colour else None)
        shown += [f"{mark}{verdict.promise.value}", f"        {verdict.evidence}"]
    shown.append(f"{len(report.results)} cases in {report.seconds:.0f} s")
    if report.repeated:
        shown.append(f"{report.repeated} tries were repeated: the innocent server's callers waited too long")
    if directory is not None:
        shown.append(f"what the daemons logged is in {directory}; please send it with a report")
    return shown


SELFTEST = Verb(
    "selftest",
    "try here, with servers that misbehave, whether the promises are kept",
    """\
  mcp-supervisor selftest               (less than a minute, no root)
  mcp-supervisor selftest C16 C19       (only these cases)
  mcp-supervisor selftest --json
All of it happens in a temporary directory, with daemons of its own; the daemon
of this machine is not touched. The cases are in docs/faults.md.
""",
    run,
    _declare,
    takes_more=True,
)
