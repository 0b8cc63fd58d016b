"""What the outside sees of the fleet: frozen values, in the words and shapes of the control API.

Fields are camelCase on the wire. `state` is the one word for dashboards, `phase` the exact one.
"""

from collections.abc import Mapping
from typing import assert_never

import msgspec

from supervisor.core.phases import (
    Backoff,
    Idle,
    Killing,
    Phase,
    Ready,
    Starting,
    Stopped,
    Stopping,
    Unavailable,
)


class ExitView(msgspec.Struct, frozen=True, rename="camel"):
    """How a run ended."""

    reason: str
    at: float
    code: int | None = None
    signal: int | None = None


class ServerView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One line of `servers/list`."""

    name: str
    state: str
    phase: str
    reason: str
    since: float
    transport: str
    protocol: str | None
    pid: int | None
    run: int
    restarts: int
    tools: int
    pending: int
    source: str
    shadows: tuple[str, ...]
    exit: ExitView | None
    next_try: float | None


class ServerDetail(ServerView, frozen=True, rename="camel", kw_only=True):
    """What `servers/get` adds."""

    command: str | None
    args: tuple[str, ...]
    cwd: str | None
    environment: tuple[str, ...]
    """Names only; values are secrets."""
    server_info: Mapping[str, object]
    calls: Mapping[str, int]
    """Finished calls by outcome."""
    noise: int
    """Lines on standard output that were not MCP."""
    timeline: tuple[tuple[str, float], ...]
    """What happened during the last start, and when."""
    ends: tuple[ExitView, ...]
    """The last ends, oldest first."""
    stderr: tuple[str, ...]
    left_out: tuple[Mapping[str, str], ...]


def state_word(phase: Phase, *, enabled: bool) -> str:
    """The one word for a phase: whether this server can answer, and if not, whether it should."""
    match phase:
        case Stopped():
            return "stopped" if enabled else "disabled"
        case Idle():
            return "idle"
        case Starting():
            return "connecting"
        case Ready():
            return "connected"
        case Stopping() | Killing():
            return "stopping"
        case Backoff() | Unavailable():
            return "unavailable"
    assert_never(phase)


def phase_word(phase: Phase) -> str:
    return type(phase).__name__.lower()
