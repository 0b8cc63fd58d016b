"""What the outside sees of the fleet: frozen values, in the words and shapes of the control API.

Fields are camelCase on the wire. `state` is the one word for dashboards, `phase` the exact one.
"""

from collections.abc import Mapping
from typing import assert_never

import msgspec

from supervisor.core.catalog import LeftOut
from supervisor.core.latency import LatencyView
from supervisor.core.phases import (
    Backoff,
    Idle,
    Killing,
    Phase,
    Ready,
    Starting,
    StopCause,
    Stopped,
    Stopping,
    Unavailable,
)


class ExitView(msgspec.Struct, frozen=True, rename="camel"):
    """How a run ended."""

    reason: str
    """In words."""
    at: float
    """When, in seconds since 1970."""
    code: int | None = None
    """The exit code, when it exited."""
    signal: int | None = None
    """The signal, when one killed it."""


class ServerView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One line of `servers/list`."""

    name: str
    """Its key in the configuration."""
    state: str
    """The one word: disabled, stopped, idle, connecting, connected, unavailable or stopping."""
    phase: str
    """The exact one: stopped, idle, starting, ready, stopping, killing, backoff or unavailable."""
    reason: str
    """Why it is in this phase, in words."""
    since: float
    """When it came into this phase."""
    transport: str
    """stdio or streamableHttp; unknown when its entry is wrong."""
    protocol: str | None
    """The protocol version that was agreed on; null while it is not connected."""
    pid: int | None
    """The process of its run; null without one."""
    run: int
    """How many times it was started by this daemon."""
    restarts: int
    """How many of those were not the first."""
    tools: int
    """How many of its tools are offered now."""
    remembered: bool
    """Whether these tools are known from before the daemon started, and no run has listed them since."""
    pending: int
    """Calls that were sent to it or wait for it."""
    source: str
    """The file whose entry counts; empty after the reset of one that is not configured."""
    shadows: tuple[str, ...]
    """Earlier files whose entry of that name is hidden."""
    overridden: bool
    """Whether an operator, and not its entry, has said if it is enabled."""
    behind: str | None = None
    """Why it does not run as its entry says now, but as it did before; null when it does."""
    draining: int = 0
    """Calls that finish on runs which were replaced."""
    exit: ExitView | None
    """How the last run ended; null before that."""
    next_try: float | None
    """When it is tried again; null when no try is due."""
    calls: Mapping[str, int]
    """Finished calls by outcome."""
    latency: LatencyView | None
    """How long recent calls took; null without any."""
    rss: int | None
    """Resident bytes of the process tree."""
    cpu: float | None
    """Seconds of processor time of the process tree."""


class ServerDetail(ServerView, frozen=True, rename="camel", kw_only=True):
    """Everything about one server."""

    command: str | None
    """As written in its entry; null for a server that is no process."""
    args: tuple[str, ...]
    """As written in its entry."""
    cwd: str | None
    """As written in its entry; null is the daemon's."""
    environment: tuple[str, ...]
    """Names only; values are secrets."""
    server_info: Mapping[str, object]
    """What it said of itself: name, version and the like."""
    noise: int
    """Lines on standard output that were not MCP."""
    timeline: tuple[tuple[str, float], ...]
    """What happened during the last start, and when."""
    ends: tuple[ExitView, ...]
    """The last ends, oldest first."""
    stderr: tuple[str, ...]
    """The last lines of its standard error, without secrets."""
    left_out: tuple[Mapping[str, str], ...]
    """Its tools that are not offered: server, tool, name, cause, reason."""


def not_configured(name: str, *, now: float) -> ServerView:
    """A server that no file describes, once what an operator said of it is forgotten."""
    return ServerView(
        name=name,
        state="stopped",
        phase="stopped",
        reason="not configured; what was said by hand is forgotten",
        since=now,
        transport="unknown",
        protocol=None,
        pid=None,
        run=0,
        restarts=0,
        tools=0,
        remembered=False,
        pending=0,
        source="",
        shadows=(),
        overridden=False,
        exit=None,
        next_try=None,
        calls={},
        latency=None,
        rss=None,
        cpu=None,
    )


STATES = ("disabled", "stopped", "idle", "connecting", "connected", "unavailable", "stopping")
"""Every word that `state_word` gives."""


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


def keeps_its_tools(before: Phase, after: Phase, *, offered: bool) -> bool:
    """Whether a server that moved may still be called; `offered` says whether it could be before.

    One that sleeps can: it is stopped because nobody used it, waits for a call, or starts for one.
    """
    match after:
        case Ready() | Idle():
            return True
        case Stopping(cause=cause):
            return cause is StopCause.IDLE
        case Killing() | Starting():
            return offered and isinstance(before, Idle | Stopping | Killing)
        case Stopped() | Backoff() | Unavailable():
            return False
    assert_never(after)


def phase_word(phase: Phase) -> str:
    return type(phase).__name__.lower()


def shown(entry: LeftOut) -> Mapping[str, str]:
    """A tool that was left out, in the shape of the control API."""
    return {
        "server": entry.server,
        "tool": entry.tool,
        "name": entry.public_name,
        "cause": entry.cause,
        "reason": entry.reason,
    }
