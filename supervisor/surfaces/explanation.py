"""The shape of what `servers/why` answers with; `why_methods` gathers what is in it."""

import msgspec

from supervisor.core.suggestion import Suggestion
from supervisor.core.view import ExitView
from supervisor.surfaces.server_methods import StderrLine


class SearchedDirectory(msgspec.Struct, frozen=True, rename="camel"):
    """A place where the command is looked for."""

    directory: str
    """Its path."""
    exists: bool
    """Whether it is there."""


class LaunchView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a start runs."""

    command: str
    """As written in the entry."""
    args: tuple[str, ...]
    """As written in the entry."""
    executable: str | None
    """The file that the command means, whether or not it can be run; null when there is none, or when its
    entry cannot be filled in and `path` is empty."""
    cwd: str | None
    """Null is the daemon's own."""
    environment: tuple[str, ...]
    """The names of the server's variables; values are secrets."""
    path: tuple[SearchedDirectory, ...]
    """The server's PATH, which the command is looked for in."""


class Moment(msgspec.Struct, frozen=True, rename="camel"):
    """Something that happened during the last start: spawned, heard, greeted or listed."""

    what: str
    """Which."""
    at: float
    """When, in seconds since 1970."""
    offset: float
    """Seconds after the first moment."""


class Noise(msgspec.Struct, frozen=True, rename="camel"):
    """Lines on standard output that were not MCP."""

    count: int
    """How many, in the last run."""
    samples: tuple[str, ...]
    """The last of them."""


class Why(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One server explained; times are seconds since 1970."""

    server: str
    """Its name in the configuration."""
    state: str
    """The one word: disabled, stopped, idle, connecting, connected, unavailable or stopping."""
    phase: str
    """The exact word for it."""
    reason: str
    """Why it is in this phase, in words."""
    since: float
    """When it came into this phase."""
    suggestions: tuple[Suggestion, ...]
    """`{kind, cause, fix}`, the most likely first, never empty."""
    source: str
    """The configuration file that describes it."""
    transport: str
    """stdio or streamableHttp; unknown when its entry is wrong."""
    problems: tuple[str, ...]
    """What is wrong with its entry."""
    missing_variables: tuple[str, ...]
    """Variables that its entry refers to, or wants inherited, and that the daemon does not have."""
    launch: LaunchView | None
    """Null for a server that is no process, or whose entry is wrong."""
    protocol: str | None
    """The version that was agreed on; null while it is not connected."""
    timeline: tuple[Moment, ...]
    """The last start, step by step."""
    ends: tuple[ExitView, ...]
    """`{reason, at, code, signal}` of the last ten runs, oldest first."""
    stderr: tuple[StderrLine, ...]
    """The last lines, oldest first."""
    noise: Noise
    """What it printed where only MCP may be."""
    next_try: float | None
    """When it is tried again; null when no try is due."""
