"""How busy each server is, from two looks at the fleet. Asks nothing and prints nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.cli.values import mapping

Server = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """The fleet at one moment of a clock that never goes back."""

    at: float
    servers: Sequence[Server]


@dataclass(frozen=True, slots=True)
class Load:
    """What one server does; None is what nobody knows."""

    name: str
    state: str
    calls_per_second: float | None
    p50: float | None
    p99: float | None
    pending: int | None
    rss: int | None
    cpu: float | None
    """Processors kept busy: 1.0 is one of them, all the time."""


def loads(now: Look, before: Look | None) -> list[Load]:
    """The load of every server, in the order of the look."""
    earlier = {} if before is None else {server["name"]: server for server in before.servers}
    passed = 0.0 if before is None else now.at - before.at
    return [_load(server, earlier.get(server["name"]), passed) for server in now.servers]


def total(figures: Sequence[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _load(server: Server, earlier: Server | None, passed: float) -> Load:
    latency = mapping(server.get("latency"))
    same_run = earlier is not None and earlier.get("run") == server.get("run")
    return Load(
        name=server["name"],
        state=server["state"],
        calls_per_second=_growth(_finished(server), _finished(earlier), passed),
        p50=latency.get("p50"),
        p99=latency.get("p99"),
        pending=server.get("pending"),
        rss=server.get("rss"),
        cpu=_growth(server.get("cpu"), earlier.get("cpu"), passed) if same_run and earlier else None,
    )


def _finished(server: Server | None) -> int | None:
    """How many calls have ended, in whatever way."""
    calls = None if server is None else server.get("calls")
    return None if calls is None else sum(mapping(calls).values())


def _growth(now: float | None, before: float | None, passed: float) -> float | None:
    if now is None or before is None or passed <= 0:
        return None
    # A count that fell has begun anew.
    return (now - before if now >= before else now) / passed
