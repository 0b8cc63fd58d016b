"""What is over is gone at once: nothing of it waits for the collector, whose work holds up everybody."""

import asyncio
import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.phases import Backoff, KillRequested, Ready, Stopped
from supervisor.errors import ServerUnavailable
from supervisor.runtime.conversation import Conversation
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.http import HttpRun
from supervisor.runtime.httptalk import HttpTalk
from supervisor.runtime.httpwire import HttpWire
from supervisor.runtime.process import Child
from supervisor.runtime.session import Session
from supervisor.runtime.stdio import StdioRun
from supervisor.runtime.wire import PipeWire
from supervisor.surfaces.connection import Client
from tests.ports import reserved
from tests.runtime.control_support import controlled
from tests.runtime.fleet_support import Asked, Build, Reply, entry, only_child, reach
from tests.runtime.http_support import Served, remote, serving
from tests.runtime.support import LOOPS, until

REMOTE = (HttpRun, HttpTalk, HttpWire, Session)

pytestmark = [pytest.mark.usefixtures("nothing_left", "uncollected"), LOOPS]


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living(*kinds: type) -> Counter[type]:
    return Counter(type(each) for each in gc.get_objects() if isinstance(each, kinds))


@pytest.mark.parametrize("era", ["both", "legacy", "rmcp"])
async def test_a_run_that_is_over_leaves_nothing_of_it(build: Build, era: str) -> None:
    kinds = (StdioRun, Child, Conversation, Session, PipeWire)
    server = entry("--era", era, restart={"policy": "always", "delay": 0.05})
    async with build.up({"fake": server}) as fleet:
        for _ in range(3):
            await fleet.restart_server("fake")
        for _ in range(3):
            os.kill(only_child(), signal.SIGKILL)
            await reach(fleet, "fake", Backoff)
            await reach(fleet, "fake", Ready)

        assert living(*kinds) == dict.fromkeys(kinds, 1)


@pytest.mark.parametrize(
    ("era", "stage"),
    [
        ("both", "spawn"),
        ("both", "list"),
        ("legacy", "initialize"),
        ("legacy", "list"),
        ("rmcp", "initialize"),
    ],
)
async def test_a_run_that_dies_before_it_is_ready_leaves_nothing_of_it(
    build: Build, era: str, stage: str
) -> None:
    async with build.up({"fake": entry("--era", era, "--exit-at", stage)}) as fleet:
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                await fleet.restart_server("fake")

        assert living(Child) == {}
        # The last run is kept for whoever asks how it went.
        kinds = (StdioRun, Conversation, Session, PipeWire)
        assert living(*kinds) == dict.fromkeys(kinds, 1)


async def test_a_run_that_cannot_be_started_leaves_nothing_of_it(build: Build) -> None:
    async with build.up({"fake": {"command": "/nowhere/at-all"}}) as fleet:
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                await fleet.restart_server("fake")

        kinds = (StdioRun, Conversation, Session, PipeWire)
        assert living(*kinds) == dict.fromkeys(kinds, 1)


async def test_a_run_over_http_whose_door_never_opens_leaves_nothing_of_it(build: Build) -> None:
    async with build.up({"remote": {"url": "https://127.0.0.1:1/", "caFile": "/nowhere.pem"}}) as fleet:
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                await fleet.restart_server("remote")

        assert living(*REMOTE) == dict.fromkeys(REMOTE, 1)


async def test_a_client_that_has_left_leaves_nothing_of_its_connection(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with controlled(build, path) as control:
        for _ in range(3):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b'{"jsonrpc":"2.0","id":1,"method":"events/subscribe"}\n')
            writer.write(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fake_echo"}}\n')
            assert b'"id":2' in await reader.readuntil(b'"id":2')
            writer.close()
            await writer.wait_closed()

        await until(lambda: not control.clients)
        await until(lambda: not living(Client))


FORGETFUL = ["legacy", "--fault", "forget", "--times", "1"]
WAYS = pytest.mark.parametrize("way", [["both"], ["legacy"], FORGETFUL], ids=["both", "legacy", "forgetful"])


async def begun(fleet: Fleet, served: Served) -> Reply:
    """What becomes of a call that the server has; whoever holds the call itself holds the run."""
    before = len(served.ran("wait"))
    reply = Asked(fleet, "remote_wait", arguments={"seconds": 60}).reply
    await until(lambda: len(served.ran("wait")) > before)
    return reply


@WAYS
async def test_a_run_over_http_that_was_ended_leaves_nothing_of_it(
    build: Build, tmp_path: Path, way: list[str]
) -> None:
    with serving(tmp_path, "--era", *way) as served:
        async with build.up({"remote": remote(served)}) as fleet:
            for _ in range(3):
                reply = await begun(fleet, served)
                await fleet.restart_server("remote")
                await reply.done.wait()

            assert living(*REMOTE) == dict.fromkeys(REMOTE, 1)


@WAYS
async def test_a_run_over_http_that_was_dropped_leaves_nothing_of_it(
    build: Build, tmp_path: Path, way: list[str]
) -> None:
    with serving(tmp_path, "--era", *way) as served:
        async with build.up({"remote": remote(served)}) as fleet:
            for _ in range(3):
                reply = await begun(fleet, served)
                fleet.member("remote").actor.post(KillRequested())
                await reply.done.wait()
                await reach(fleet, "remote", Stopped)
                await fleet.start_server("remote")

            assert living(*REMOTE) == dict.fromkeys(REMOTE, 1)


@WAYS
async def test_a_run_over_http_that_has_lost_its_server_leaves_nothing_of_it(
    build: Build, tmp_path: Path, way: list[str]
) -> None:
    with reserved() as port:
        with serving(tmp_path, "--era", *way, "--port", port) as served:
            fleet = build({"remote": remote(served)})
        async with fleet.running():
            fleet.start()
            for _ in range(3):
                with serving(tmp_path, "--era", *way, "--port", port) as served:
                    await reach(fleet, "remote", Ready)
                    reply = await begun(fleet, served)
                await reply.done.wait()
                await reach(fleet, "remote", Backoff)
            await fleet.stop_server("remote")

            assert living(*REMOTE) == dict.fromkeys(REMOTE, 1)


@pytest.mark.parametrize("fault", ["status:500", "hang_up", "half_stream", "html"])
@pytest.mark.parametrize("stage", ["initialize", "tools/list"])
async def test_a_run_over_http_that_fails_before_it_is_ready_leaves_nothing_of_it(
    build: Build, tmp_path: Path, fault: str, stage: str
) -> None:
    with serving(tmp_path, "--era", "legacy", "--fault", fault, "--at", stage) as served:
        async with build.up({"remote": remote(served, restart={"policy": "never"})}) as fleet:
            for _ in range(3):
                with pytest.raises(ServerUnavailable):
                    await fleet.restart_server("remote")

            assert living(*REMOTE) == dict.fromkeys(REMOTE, 1)


async def test_a_run_that_reaches_nobody_leaves_nothing_of_it(build: Build) -> None:
    entry = {"url": "http://127.0.0.1:1/mcp", "restart": {"policy": "never"}}
    async with build.up({"remote": entry}) as fleet:
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                await fleet.restart_server("remote")

        assert living(*REMOTE) == dict.fromkeys(REMOTE, 1)
