"""Fleets of fake servers, and clients that write down everything they hear of a call."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from supervisor.core.phases import Backoff, Phase, Ready, Unavailable
from supervisor.core.servers import Loaded
from supervisor.errors import SupervisorError
from supervisor.runtime import proctable
from supervisor.runtime.bus import Bus
from supervisor.runtime.calls import Call, CallRequest
from supervisor.runtime.configfile import load
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.stdio import Host
from tests.files import whole_lines
from tests.runtime.support import ENVIRON, PATIENCE, fake

SECRET = "hunter2hunter2"


def entry(*options: object, **keys: Any) -> dict[str, Any]:
    """A config entry that starts the fake server."""
    command, *arguments = fake(*options)
    return {"command": command, "args": arguments, "stopGrace": 0.3, **keys}


class Build:
    """Makes fleets from configuration, as the daemon does."""

    def __init__(self, directory: Path, host: Host) -> None:
        self.directory, self.host = directory, host
        self._path, self._environ = directory / "mcp.json", {**ENVIRON, "KEY": SECRET}

    def __call__(self, servers: dict[str, Any] | None = None, **settings: Any) -> Fleet:
        servers = {"fake": entry()} if servers is None else servers
        self._path.write_text(json.dumps({"mcpServers": servers, "supervisor": settings}))
        self._path.chmod(0o600)
        return Fleet(self.load(), self.host, self._environ, Bus())

    def load(self) -> Loaded:
        """What the file says."""
        return load([self._path], self._environ)

    @asynccontextmanager
    async def up(self, servers: dict[str, Any] | None = None, **settings: Any) -> AsyncGenerator[Fleet]:
        """A fleet of which every server has come up or failed."""
        fleet = self(servers, **settings)
        async with fleet.running():
            fleet.start()
            for name in fleet.members:
                await reach(fleet, name, Ready, Unavailable, Backoff)
            yield fleet


async def reach(fleet: Fleet, name: str, *phases: type[Phase]) -> None:
    with anyio.fail_after(PATIENCE):
        await fleet.members[name].actor.reach(*phases)


class Reply:
    """Everything that a client hears of one call."""

    def __init__(self) -> None:
        self.ends: list[Any] = []
        self.progress: list[Any] = []
        self.done = anyio.Event()

    def result(self, raw: bytes | msgspec.Raw) -> None:
        self._end(msgspec.json.decode(raw))

    def fault(self, raw: bytes | msgspec.Raw) -> None:
        self._end(msgspec.json.decode(raw))

    def error(self, error: SupervisorError) -> None:
        self._end(error)

    def notify(self, method: str, params: bytes) -> None:
        self.progress.append((method, json.loads(params)))

    def _end(self, end: Any) -> None:
        self.ends.append(end)
        self.done.set()


class Asked:
    """A call under way."""

    def __init__(self, fleet: Fleet, name: str, *, client: str = "client", **fields: Any) -> None:
        self.reply = Reply()
        params = msgspec.json.encode({"name": name, **fields})
        self.call: Call = fleet.call(msgspec.json.decode(params, type=CallRequest), self.reply, client)

    async def end(self) -> Any:
        """How it ended; once, or the test fails."""
        with anyio.fail_after(PATIENCE):
            await self.reply.done.wait()
        (end,) = self.reply.ends
        return end

    async def text(self) -> str:
        text: str = (await self.end())["content"][0]["text"]
        return text


def calls_received(log: Path) -> list[str]:
    """The tools that a fake server was asked for, by its log."""
    records = [json.loads(line).get("received", {}) for line in whole_lines(log)]
    return [record["params"]["name"] for record in records if record.get("method") == "tools/call"]


def only_child() -> int:
    (child,) = proctable.descendants(os.getpid())
    return child.pid


async def fleet_call(fleet: Fleet, tool: str) -> None:
    """Call a tool that is not listed, over the server's own wire."""
    run = fleet.members["fake"]._run
    assert run is not None
    session = run.talk.session
    session.wire.request("tools/call", session.stamped({"name": tool, "arguments": {}}), Silent())


class Silent:
    """Does not care for the answer."""

    def answered(self, result: msgspec.Raw) -> None: ...

    def refused(self, error: msgspec.Raw) -> None: ...

    def unusable(self, problem: object) -> None: ...

    def lost(self, end: object) -> None: ...

    def not_sent(self, detail: str, retry_after: float | None = None) -> None: ...
