"""The series of a scrape: complete, bounded in time, and gone with their server."""

import anyio
import pytest
from msgspec.structs import replace

from supervisor.core.counters import CallTally
from supervisor.errors import Outcome
from supervisor.runtime.usage import Usage
from supervisor.surfaces.metrics import SAMPLING_TIME, Metrics, Reading, Sampler, ServerReading

pytestmark = pytest.mark.anyio
USED = Usage(processes=2, rss=1000, cpu=1.5, descriptors=7)


def server(name: str, *, pid: int | None = 10, run: int = 1, tools: int = 1) -> ServerReading:
    tally = CallTally()
    for number in range(tools):
        tally.ended(f"{name}_tool_{number}", Outcome.OK, 0.02, 100)
    return ServerReading(
        name=name,
        state="connected",
        process=None if pid is None else (pid, run),
        tools=tools,
        pending=1,
        queued=0,
        oldest=2.5,
        start_seconds=None,
        restarts={"failure": 2},
        exits={},
        calls=tally.by_tool,
        call_seconds=(tally.seconds.cumulative(), tally.seconds.total),
        result_bytes=(tally.result_bytes.cumulative(), tally.result_bytes.total),
        truncated=0,
        noise=3,
        stderr_bytes=4,
    )


def reading(*servers: ServerReading) -> Reading:
    return Reading(
        servers=servers,
        generation=5,
        clients=2,
        refused={"rejected": 1},
        requests={("tools/call", "ok"): 9},
        reloads={"ok": 1},
        last_reload=123.0,
        last_reload_ok=False,
        tasks=7,
        write_failures={"log": 3, "state": 0},
    )


class Looking:
    """A clock that only looking moves, and what is seen at each pid."""

    def __init__(self, cost: float = 0.0) -> None:
        self.now, self.cost = 0.0, cost
        self.seen: list[int] = []
        self.used: dict[int, Usage | None] = {}

    def look(self, pid: int) -> Usage | None:
        self.now += self.cost
        self.seen.append(pid)
        return self.used.get(pid, USED)

    def sampler(self) -> Sampler:
        return Sampler(self.look, lambda: self.now)


def lines(of: Reading, accept: str = "") -> set[str]:
    body, _ = Metrics(lambda: of, Looking().sampler()).render(of, accept)
    return set(body.decode().replace("mcp_supervisor_", "").splitlines())


def test_every_kind_of_series_is_there() -> None:
    assert {
        'server_up{server="s"} 1',
        'server_state{server="s",state="connected"} 1',
        'server_state{server="s",state="unavailable"} 0',
        'server_restarts_total{server="s",reason="failure"} 2',
        'server_exits_total{server="s",kind="signal"} 0',
        'server_pending_calls{server="s"} 1',
        'server_queue_length{server="s"} 0',
        'server_oldest_call_seconds{server="s"} 2.5',
        'tool_calls_total{server="s",tool="s_tool_0",outcome="ok"} 1',
        'tool_calls_total{server="",tool="unknown",outcome="rejected"} 1',
        'tool_call_seconds_bucket{server="s",le="0.025"} 1',
        'result_bytes_count{server="s"} 1',
        'results_truncated_total{server="s"} 0',
        'server_stdout_noise_total{server="s"} 3',
        'server_stderr_bytes_total{server="s"} 4',
        'server_rss_bytes{server="s"} 1000',
        'server_cpu_seconds_total{server="s"} 1.5',
        'server_processes{server="s"} 2',
        'server_open_fds{server="s"} 7',
        'tools{server="s"} 1',
        "catalog_generation 5",
        'config_reloads_total{result="ok"} 1',
        'config_reloads_total{result="refused"} 0',
        "config_last_reload_success_timestamp_seconds 123.0",
        "config_last_reload_successful 0",
        "control_clients 2",
        "tasks_running 7",
        'write_failures_total{what="log"} 3',
        'write_failures_total{what="state"} 0',
        'control_requests_total{method="tools/call",code="ok"} 9',
    } <= lines(reading(server("s")))


def test_what_is_not_known_has_no_series() -> None:
    shown = "\n".join(lines(reading(server("s", pid=None))))

    assert "server_rss_bytes{" not in shown
    assert "server_start_seconds{" not in shown


def test_a_server_that_is_gone_takes_its_series_with_it() -> None:
    metrics = Metrics(reading, Looking().sampler())
    before, _ = metrics.render(reading(server("s")), "")

    after, _ = metrics.render(reading(), "")

    assert b'server="s"' in before
    assert b'server="s"' not in after


def test_looking_at_processes_stops_when_its_time_is_over_and_goes_on_there_next_time() -> None:
    looking = Looking(cost=SAMPLING_TIME / 2)
    sampler, servers = looking.sampler(), [server(f"s{pid}", pid=pid) for pid in range(5)]

    rounds = [set(sampler.sample(servers)) for _ in range(3)]

    assert [len(names) for names in rounds] == [2, 4, 5]
    assert sorted(looking.seen[:5]) == [0, 1, 2, 3, 4]


def test_processor_time_of_past_runs_is_kept() -> None:
    looking = Looking()
    sampler, first = looking.sampler(), server("s", pid=10, run=1)
    sampler.sample([first])
    looking.used[11] = replace(USED, cpu=0.5)

    spent = sampler.sample([replace(first, process=(11, 2))])

    assert spent["s"].cpu_seconds == 2.0


def test_a_process_that_is_gone_is_not_shown() -> None:
    looking = Looking()
    looking.used[10] = None

    assert looking.sampler().sample([server("s", pid=10)]) == {}


async def test_scrapes_take_turns() -> None:
    taken = 0

    def take() -> Reading:
        nonlocal taken
        taken += 1
        return replace(reading(), generation=taken)

    metrics, bodies = Metrics(take), list[bytes]()

    async def scrape() -> None:
        bodies.append((await metrics.scrape(""))[0])

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(scrape)

    assert [body.split(b"mcp_supervisor_catalog_generation ")[-1][:1] for body in bodies] == [
        b"1",
        b"2",
        b"3",
    ]
