"""Whether the fleet is well, in words: for the readiness page and for systemd's status line.

Looks at frozen views and decides nothing but the words. What is done about it is the reader's.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

_NAMED = 3
"""Broken servers that a status line names; the others are counted."""
_LONGEST = 60


class Condition(Struct, frozen=True):
    """How one server is, as far as health is concerned."""

    name: str
    state: str
    reason: str
    critical: bool = False


def shortfalls(servers: Iterable[Condition]) -> tuple[str, ...]:
    """Why the fleet is not ready: a line for each critical server that can take no calls."""
    return tuple(
        f"{server.name}: {server.state} ({server.reason})"
        for server in servers
        if server.critical and server.state not in ("connected", "idle")
    )


def status_line(servers: Sequence[Condition]) -> str:
    """One line such as `11/12 connected; github: crash loop`; disabled servers do not count."""
    wanted = [server for server in servers if server.state != "disabled"]
    connected = sum(server.state == "connected" for server in wanted)
    broken = [server for server in wanted if server.state == "unavailable"]
    named = [f"{server.name}: {headline(server.reason)}" for server in broken[:_NAMED]]
    more = [f"{len(broken) - _NAMED} more"] if len(broken) > _NAMED else []
    return "; ".join([f"{connected}/{len(wanted)} connected", *named, *more])


def headline(reason: str) -> str:
    """What weighs most in a reason: its last clause, without the details after a colon."""
    clause = reason.rpartition("; ")[2].partition(": ")[0]
    return clause if len(clause) <= _LONGEST else f"{clause[:_LONGEST]}…"
