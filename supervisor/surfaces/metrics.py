"""The fleet as Prometheus sees it: every series, made at the scrape from one frozen reading.

`read` copies what is known, on the event loop, in one go. The rest (looking at processes, writing text)
is done by `Metrics` in a worker thread, so calls do not wait for a scrape. Nothing is counted here; that is
`core.counters`.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct, field

from supervisor import __version__
from supervisor.core.counters import EXIT_KINDS, RELOAD_RESULTS, RESTART_REASONS, UNKNOWN, Histogram, Meter
from supervisor.core.exposition import (
    CONTENT_TYPES,
    Buckets,
    Distribution,
    Family,
    Kind,
    negotiate,
    write,
)
from supervisor.core.view import STATES
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.member import Member
from supervisor.runtime.usage import Usage, usage

PREFIX = "mcp_supervisor_"
SAMPLING_TIME = 0.25
"""Seconds that looking at processes may take in one scrape; who had no turn shows what was seen before."""

Cumulative = tuple[Buckets, float]
"""The buckets of a histogram, and the sum of its values."""


class ServerReading(Struct, frozen=True, kw_only=True):
    """One server at the moment of a scrape."""

    name: str
    state: str
    process: tuple[int, int] | None
    """Its pid and the number of its run."""
    tools: int
    pending: int
    queued: int
    oldest: float
    start_seconds: float | None
    restarts: Mapping[str, int]
    exits: Mapping[str, int]
    calls: Mapping[tuple[str, str], int]
    call_seconds: Cumulative
    result_bytes: Cumulative
    truncated: int
    noise: float
    stderr_bytes: float


class Reading(Struct, frozen=True, kw_only=True):
    """Everything at the moment of a scrape."""

    servers: tuple[ServerReading, ...]
    generation: int
    clients: int
    refused: Mapping[str, int]
    requests: Mapping[tuple[str, str], int]
    reloads: Mapping[str, int]
    last_reload: float
    last_reload_ok: bool
    tasks: int
    write_failures: Mapping[str, int]
    """By what could not be written."""


class Spent(Struct, frozen=True):
    """What the processes of one server use up."""

    usage: Usage
    cpu_seconds: float
    """Of all its runs together."""


def read(fleet: Fleet, *, clients: int, write_failures: Mapping[str, int]) -> Reading:
    """Look at everything at once; what was counted of servers that are gone is dropped."""
    counters, counts = fleet.counters, fleet.catalog.counts
    counters.forget_all_but(fleet.members)
    return Reading(
        servers=tuple(
            _read_server(fleet, member, counts.get(name, 0)) for name, member in sorted(fleet.members.items())
        ),
        generation=fleet.generations.number,
        clients=clients,
        refused=dict(counters.refused),
        requests=dict(counters.requests),
        reloads=dict(counters.reloads),
        last_reload=counters.last_reload,
        last_reload_ok=counters.last_reload_ok,
        tasks=len(anyio.get_running_tasks()),
        write_failures=write_failures,
    )


def _read_server(fleet: Fleet, member: Member, tools: int) -> ServerReading:
    fleet.gauge(member)
    tally, desk, pid = fleet.counters.server(member.name), member.desk, member.pid
    return ServerReading(
        name=member.name,
        state=member.word,
        process=None if pid is None else (pid, member.actor.state.run),
        tools=tools,
        pending=desk.pending,
        queued=desk.queued,
        oldest=desk.oldest,
        start_seconds=tally.start_seconds,
        restarts=dict(tally.restarts),
        exits=dict(tally.exits),
        calls=dict(tally.calls.by_tool),
        call_seconds=_frozen(tally.calls.seconds),
        result_bytes=_frozen(tally.calls.result_bytes),
        truncated=tally.calls.truncated,
        noise=tally.noise.total,
        stderr_bytes=tally.stderr_bytes.total,
    )


def _frozen(histogram: Histogram) -> Cumulative:
    return histogram.cumulative(), histogram.total


class Sampler(Struct):
    """Looks at the processes of all servers, for a bounded time."""

    look: Callable[[int], Usage | None] = usage
    clock: Callable[[], float] = time.monotonic
    _last: dict[str, tuple[tuple[int, int], Usage]] = field(default_factory=dict[str, Any])
    _cpu: dict[str, Meter] = field(default_factory=dict[str, Meter])

    def sample(self, servers: Sequence[ServerReading]) -> dict[str, Spent]:
        """What each server with a process uses up, by name; whoever was looked at longest ago goes first."""
        running = {server.name: server.process for server in servers if server.process is not None}
        names = {server.name for server in servers}
        self._cpu = {name: meter for name, meter in self._cpu.items() if name in names}
        self._last = {name: seen for name, seen in self._last.items() if running.get(name) == seen[0]}
        deadline = self.clock() + SAMPLING_TIME
        order = list(self._last)
        for name in sorted(running, key=lambda name: order.index(name) if name in self._last else -1):
            if self.clock() < deadline:
                self._look_at(name, running[name])
        return {name: Spent(seen, self._cpu[name].total) for name, (_, seen) in self._last.items()}

    def _look_at(self, name: str, process: tuple[int, int]) -> None:
        self._last.pop(name, None)
        seen = self.look(process[0])
        if seen is not None:
            self._last[name] = (process, seen)
            self._cpu.setdefault(name, Meter()).read(process, seen.cpu)


class Metrics:
    """Answers scrapes, one at a time."""

    def __init__(self, take: Callable[[], Reading], sampler: Sampler | None = None) -> None:
        self._take = take
        self._sampler = Sampler() if sampler is None else sampler
        self._turn = anyio.Lock()

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """The text of all series, in the format that suits `accept`, and its content type."""
        async with self._turn:
            return await anyio.to_thread.run_sync(self.render, self._take(), accept)

    def render(self, reading: Reading, accept: str) -> tuple[bytes, str]:
        """The text for this reading, and its content type."""
        form = negotiate(accept)
        spent = self._sampler.sample(reading.servers)
        return write(_families(reading, spent), form), CONTENT_TYPES[form]


def _families(reading: Reading, spent: Mapping[str, Spent]) -> Iterator[Family | Distribution]:
    yield from _gauges(reading.servers)
    yield from _counters(reading.servers)
    yield from _calls(reading)
    yield from _processes(spent)
    yield from _daemon(reading)


_GAUGES: tuple[tuple[str, str, Callable[[ServerReading], float | None]], ...] = (
    ("server_up", "Whether the server can answer.", lambda server: server.state == "connected"),
    ("server_start_seconds", "How long its last start took.", lambda server: server.start_seconds),
    ("server_pending_calls", "Calls that have not ended.", lambda server: server.pending),
    ("server_queue_length", "Calls that wait to be sent.", lambda server: server.queued),
    (
        "server_oldest_call_seconds",
        "Age of the oldest call that has not ended.",
        lambda server: server.oldest,
    ),
    ("tools", "Tools that can be called now.", lambda server: server.tools),
)
_COUNTERS: tuple[tuple[str, str, Callable[[ServerReading], float]], ...] = (
    ("results_truncated", "Results cut because of their size.", lambda server: server.truncated),
    ("server_stdout_noise", "Lines on standard output that were not MCP.", lambda server: server.noise),
    ("server_stderr_bytes", "Bytes written to standard error.", lambda server: server.stderr_bytes),
)
_USES: tuple[tuple[str, Kind, str, Callable[[Spent], float]], ...] = (
    ("server_rss_bytes", "gauge", "Resident memory of its processes.", lambda spent: spent.usage.rss),
    ("server_processes", "gauge", "How many processes it has.", lambda spent: spent.usage.processes),
    ("server_open_fds", "gauge", "Descriptors they have open.", lambda spent: spent.usage.descriptors),
    ("server_cpu_seconds", "counter", "Processor time of its processes.", lambda spent: spent.cpu_seconds),
)


def _gauges(servers: Sequence[ServerReading]) -> Iterator[Family]:
    for name, sentence, value in _GAUGES:
        rows = (((server.name,), value(server)) for server in servers)
        known = ((labels, measured) for labels, measured in rows if measured is not None)
        yield Family(PREFIX + name, "gauge", sentence, ("server",), known)
    yield Family(
        f"{PREFIX}server_state",
        "gauge",
        "1 for the state that the server is in.",
        ("server", "state"),
        (((server.name, state), server.state == state) for server in servers for state in STATES),
    )


def _counters(servers: Sequence[ServerReading]) -> Iterator[Family]:
    for name, sentence, value in _COUNTERS:
        rows = (((server.name,), value(server)) for server in servers)
        yield Family(PREFIX + name, "counter", sentence, ("server",), rows)
    yield Family(
        f"{PREFIX}server_restarts",
        "counter",
        "Runs that were not the first, by why they began.",
        ("server", "reason"),
        (((s.name, reason), s.restarts.get(reason, 0)) for s in servers for reason in RESTART_REASONS),
    )
    yield Family(
        f"{PREFIX}server_exits",
        "counter",
        "Ends of runs, by kind.",
        ("server", "kind"),
        (((s.name, kind), s.exits.get(kind, 0)) for s in servers for kind in EXIT_KINDS),
    )


def _calls(reading: Reading) -> Iterator[Family | Distribution]:
    servers = reading.servers
    routed = (((s.name, *labels), count) for s in servers for labels, count in s.calls.items())
    refused = ((("", UNKNOWN, outcome), count) for outcome, count in reading.refused.items())
    yield Family(
        f"{PREFIX}tool_calls",
        "counter",
        "Calls that have ended; without a server where the tool is not known.",
        ("server", "tool", "outcome"),
        (*routed, *refused),
    )
    yield Distribution(
        f"{PREFIX}tool_call_seconds",
        "How long calls took, waiting included.",
        ("server",),
        (((s.name,), *s.call_seconds) for s in servers),
    )
    yield Distribution(
        f"{PREFIX}result_bytes",
        "Bytes of results, before any cut.",
        ("server",),
        (((s.name,), *s.result_bytes) for s in servers),
    )


def _processes(spent: Mapping[str, Spent]) -> Iterator[Family]:
    for name, kind, sentence, value in _USES:
        rows = (((server,), value(each)) for server, each in spent.items())
        yield Family(PREFIX + name, kind, sentence, ("server",), rows)


def _daemon(reading: Reading) -> Iterator[Family]:
    yield _single("catalog_generation", "The number of the tool listing in force.", reading.generation)
    yield _single("control_clients", "Connections to the control socket.", reading.clients)
    yield _single("tasks_running", "Tasks of the daemon's own event loop.", reading.tasks)
    yield _single(
        "config_last_reload_successful",
        "Whether the configuration, when it was last read, could be used and everything was done.",
        reading.last_reload_ok,
    )
    yield _single(
        "config_last_reload_success_timestamp_seconds",
        "When the configuration was last read and could be used.",
        reading.last_reload,
    )
    yield Family(
        f"{PREFIX}control_requests",
        "counter",
        "Answers to requests at the control socket; ok, our error code, or fault for a server's own error.",
        ("method", "code"),
        reading.requests.items(),
    )
    yield Family(
        f"{PREFIX}config_reloads",
        "counter",
        "Times the configuration was read again.",
        ("result",),
        (((result,), reading.reloads.get(result, 0)) for result in RELOAD_RESULTS),
    )
    yield Family(
        f"{PREFIX}write_failures",
        "counter",
        "Writes that failed: of a line of the log, or of what is remembered.",
        ("what",),
        (((what,), count) for what, count in reading.write_failures.items()),
    )
    versions = (__version__, platform.python_version())
    yield Family(f"{PREFIX}build", "info", "What runs.", ("version", "python"), ((versions, 1),))


def _single(name: str, sentence: str, number: float) -> Family:
    return Family(PREFIX + name, "gauge", sentence, (), (((), number),))
