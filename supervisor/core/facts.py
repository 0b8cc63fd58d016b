"""What is known about one server when somebody asks why it is as it is.

Facts are values that the caller gathers; no fact holds a secret. What they mean is `diagnosis`'s to say.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from supervisor.core.framing import Framing
from supervisor.core.interpolate import MissingReferences, Reference, interpolate
from supervisor.core.phases import Phase
from supervisor.core.restart import Mode
from supervisor.core.spec import Entry, HttpEntry, StdioEntry

SIGKILL = 9
FAULTS = frozenset({4, 6, 7, 8, 11})
"""Signals of a program's own mistakes: illegal instruction, abort, bus error, arithmetic, memory access."""
_TOLD_BY_A_SHELL = {128 + signal: signal for signal in (SIGKILL, 15, *FAULTS)}
"""How a shell or a container reports that a signal ended what it had started."""

_SAYS_NOTHING = re.compile(r"^\s*$|^npm notice|complete log of this run")
"""Blank lines, and with what npm ends whatever went wrong."""


# What was found for the command.


@dataclass(frozen=True, slots=True)
class Found:
    path: str


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such file, or none that the daemon can see."""

    name: str


@dataclass(frozen=True, slots=True)
class NotExecutable:
    path: str


@dataclass(frozen=True, slots=True)
class NoInterpreter:
    """A script whose first line names a program that is not there."""

    path: str
    interpreter: str


@dataclass(frozen=True, slots=True)
class NoDirectory:
    """The working directory does not exist."""

    path: str
    executable: str = ""
    """The program that would run in it."""


Lookup = Found | Absent | NotExecutable | NoInterpreter | NoDirectory


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended; `lived` is in seconds, None where nobody knows."""

    reason: str
    code: int | None = None
    signal: int | None = None
    lived: float | None = None

    @property
    def died_of(self) -> int | None:
        """The signal that ended it, seen directly or as a shell tells it."""
        return self.signal if self.code is None else _TOLD_BY_A_SHELL.get(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is known about one server."""

    server: str
    phase: Phase
    reason: str = ""
    """Why it is in this phase, in the words of the lifecycle or the session."""
    enabled: bool = True
    problems: tuple[str, ...] = ()
    """What is wrong with its entry."""
    behind: str | None = None
    """Why it does not run as its entry says now."""
    trouble: str | None = None
    """Why it cannot be started although its entry is right."""
    missing: tuple[str, ...] = ()
    """Variables that the entry refers to and the daemon does not have."""
    not_inherited: tuple[str, ...] = ()
    """Variables that the entry wants inherited and the daemon does not have."""
    argv: tuple[str, ...] = ()
    """As written in the entry; empty for a server that is no process."""
    remote: bool = False
    """Whether it is reached over HTTP, and is no process of ours."""
    lookup: Lookup | None = None
    protocol: str = "auto"
    framing: Framing = "newline"
    start_timeout: float = 30.0
    restart: Mode = "never"
    reached: tuple[str, ...] = ()
    """What happened during the last start: spawned, heard, greeted, listed."""
    ends: tuple[RunEnd, ...] = ()
    """The last ends, oldest first."""
    stderr: tuple[str, ...] = ()
    """Lines of the last run."""
    noise: int = 0
    """Lines on standard output that were not MCP."""
    samples: tuple[str, ...] = ()
    """Some of them."""
    tools: int = 0
    """How many of its tools are offered."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many are not, by cause: policy, filter, collision, definition."""

    @property
    def timed_out(self) -> bool:
        return self.reason.startswith("did not answer within")

    @property
    def greeted(self) -> bool:
        return "greeted" in self.reached

    @property
    def served(self) -> bool:
        """Whether the last run came as far as being connected."""
        return "listed" in self.reached

    @property
    def own_end(self) -> RunEnd | None:
        """How the last run ended, if that was not our doing: only then does the reason begin with it."""
        last = self.ends[-1] if self.ends else None
        return last if last is not None and self.reason.startswith(last.reason) else None

    @property
    def words(self) -> tuple[str, ...]:
        """All that the server said, and what was said about it."""
        return (self.reason, *self.samples, *self.stderr)

    @property
    def last_line(self) -> str | None:
        """The last line on standard error that says anything."""
        return next((line for line in reversed(self.stderr) if not _SAYS_NOTHING.search(line)), None)


def missing_variables(entry: Entry, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that the entry refers to without a default and that are not set, each once."""
    match entry:
        case StdioEntry():
            templates = [entry.command, *entry.args, *entry.env.values(), *filter(None, [entry.cwd])]
        case HttpEntry():
            templates = [entry.url, *entry.headers.values()]
        case _:
            assert_never(entry)
    templates += entry.roots or ()
    return tuple(dict.fromkeys(name for template in templates for name in _unset(template, environ)))


def _unset(template: str, environ: Mapping[str, str]) -> list[str]:
    def resolve(reference: Reference) -> str | None:
        return environ.get(reference.name) if reference.kind == "variable" else ""

    try:
        interpolate(template, resolve)
    except MissingReferences as error:
        return [each.reference.name for each in error.missing if each.reference.kind == "variable"]
    return []


def not_inherited(entry: Entry, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that the entry wants inherited and that are not set."""
    wanted = entry.inherit_env if isinstance(entry, StdioEntry) else ()
    return tuple(name for name in wanted if name not in environ)
