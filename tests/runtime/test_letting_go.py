"""What is over is gone at once: nothing of it waits for the collector, whose work holds up everybody."""

import asyncio
import gc
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from supervisor.core.phases import Backoff, Ready
from supervisor.errors import ServerUnavailable
from supervisor.runtime.bus import Bus
from supervisor.runtime.conversation import Conversation
from supervisor.runtime.memory import Memory
from supervisor.runtime.process import Child
from supervisor.runtime.reload import Reloader
from supervisor.runtime.session import Session
from supervisor.runtime.stdio import StdioRun
from supervisor.runtime.wire import PipeWire
from supervisor.surfaces.connection import Client
from supervisor.surfaces.control import Control
from supervisor.surfaces.service import Service
from tests.runtime.fleet_support import Build, entry, only_child, reach
from tests.runtime.support import LOOPS, until

pytestmark = [pytest.mark.usefixtures("nothing_left", "uncollected"), LOOPS]


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living(*kinds: type) -> Counter[type]:
    return Counter(type(each) for each in gc.get_objects() if isinstance(each, kinds))


@asynccontextmanager
async def controlled(build: Build, path: Path) -> AsyncGenerator[Control]:
    """A control socket there, and a fleet behind it."""
    async with build.up() as fleet:
        bus, loaded = Bus(), build.load()
        service = Service(
            fleet=fleet,
            bus=bus,
            reloader=Reloader(fleet, loaded, lambda _: loaded, bus),
            memory=Memory(None),
            socket=str(path),
            pid=0,
            started_at=0.0,
            shut_down=lambda: None,
        )
        control = Control(service, loaded.settings.limits)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            async with control.serving(listener):
                yield control


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
