"""What servers cost that come and go: starting fleets, their memory, servers that die."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bench.calm import Taken, calmest
from bench.contender import Fleet
from bench.field import Entrant, Ground, fleet_of
from bench.figures import NANO, Figure, percentile
from bench.plan import Plan, Rounds
from bench.processes import ROOT, Owned, rss_bytes

HTTP_SERVERS = 10
HTTP_MEMORY = f"resident memory, {HTTP_SERVERS} idle HTTP servers"
HAVE_STATUS = ("plain", "thin", "mcporter", "mcp-hub")
"""Those that say which of their servers are connected."""


def start(ground: Ground, plan: Plan) -> list[Figure]:
    """From the start of the program that holds the servers to all tools listed; and its memory then."""
    figures: list[Figure] = []
    for servers in plan.fleets:
        took, memory = Rounds(), Rounds()
        names_of = plan.holders_and_library if servers == min(plan.fleets) else plan.holders
        for _ in plan.rounds_of(plan.starts, shares=2):
            for name in names_of(ground):
                what = f"start with {servers} servers"
                with ground.excused(name, what):
                    taken = plan.calm.take(partial(_started, ground, name, fleet_of(servers)))
                    took.add(name, Taken(taken.value[0], taken.stolen))
                    memory.add(name, Taken(taken.value[1], 0))
        listed = f"start to all listed, {servers} servers"
        figures.append(Figure(listed, "seconds", took.medians, took.between))
        figures.append(Figure(f"resident memory, {servers} idle servers", "bytes", memory.medians))
    return figures


def _started(ground: Ground, name: str, fleet: Fleet) -> tuple[float, int]:
    """How long it took, and the memory of whoever holds the servers."""
    with ground.enter(name, fleet) as entrant:
        return entrant.opened_after, rss_bytes(entrant.holder)


def http(ground: Ground, plan: Plan) -> list[Figure]:
    """The daemon's memory with servers that it reaches over HTTP, all of them up, listed and idle."""
    champion = ground.champion
    if champion is None:
        return []
    ground.peers_lack(HTTP_MEMORY, "measured for our daemon only")
    memory = Rounds()
    with HttpServers(HTTP_SERVERS, tools=4) as servers:
        for _ in plan.rounds_of(plan.starts):
            _, bytes_held = _started(ground, champion, replace(fleet_of(HTTP_SERVERS), urls=servers.urls))
            memory.add(champion, Taken(bytes_held, 0))
    return [Figure(HTTP_MEMORY, "bytes", memory.medians)]


class HttpServers(Owned):
    """Servers on ports of this machine, all in one process."""

    def __init__(self, count: int, *, tools: int) -> None:
        command = [sys.executable, "-m", "bench.http_server", str(count), str(tools)]
        super().__init__(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.urls = [f"http://127.0.0.1:{int(port)}/mcp" for port in self._process.stdout.readline().split()]


def death(ground: Ground, plan: Plan) -> list[Figure]:
    """From the SIGKILL of a server to the error at whoever waits for its answer, and to its status."""
    middle: dict[str, float] = {}
    slowest: dict[str, float] = {}
    status: dict[str, float] = {}
    fleet = fleet_of(plan.deaths + plan.notices)
    for name in plan.holders_and_library(ground):
        with ground.excused(name, "kill -9 to error"), ground.enter(name, fleet) as entrant:
            pids = list(enumerate(entrant.pids(fleet.servers)))
            taken = _deaths(entrant, plan, "death", pids[: plan.deaths])
            middle[name], slowest[name] = percentile(taken, 0.5), percentile(taken, 0.99)
            with ground.excused(name, "kill -9 to status"):
                if name in HAVE_STATUS:
                    status[name] = percentile(_deaths(entrant, plan, "noticed", pids[plan.deaths :]), 0.5)
    return [
        Figure("kill -9 to the caller's error p50", "seconds", middle),
        Figure("kill -9 to the caller's error p99", "seconds", slowest),
        Figure("kill -9 to status p50", "seconds", status),
    ]


def _deaths(entrant: Entrant, plan: Plan, command: str, pids: Sequence[tuple[int, int]]) -> list[float]:
    """Seconds from the SIGKILL of each of these servers until what the command waits for."""
    asked = [partial(entrant.ask, command, server=server, pid=pid) for server, pid in pids]
    taken = calmest([plan.calm.take(ask, tries=1) for ask in asked], least=len(pids) // 2)
    return [nanoseconds * NANO for nanoseconds in taken]
