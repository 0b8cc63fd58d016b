"""What the tests of HTTP servers share: a hostile server, and a run of it with everything that it reports."""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec

from supervisor.core.eras import Protocol
from supervisor.core.phases import End, Event, Opened, Parted
from supervisor.core.ringlog import RingLog
from supervisor.errors import SupervisorError
from supervisor.runtime.conversation import Dialect, Listener
from supervisor.runtime.http import HttpRun, Remote
from supervisor.runtime.httpdoor import Patience, Site
from supervisor.runtime.memory import Memory
from supervisor.runtime.wire import NotSent
from tests.files import whole_lines
from tests.ports import reserved
from tests.runtime.support import PATIENCE, QUICK, Asked, bystander, until

FAKE_HTTP = Path(__file__).parents[1] / "fake_servers" / "fake_http.py"
LIMIT = 1024 * 1024
SHORT = Patience(connect=2.0, answer=2.0, idle=60.0, farewell=0.3)


@dataclass
class Served:
    """A server that runs."""

    process: "subprocess.Popen[bytes]"
    log_file: Path
    scheme: str

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        """End it without a word, and wait until it is gone."""
        self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/mcp"

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in whole_lines(self.log_file)]

    def heard(self, rpc: str) -> list[dict[str, str]]:
        """The headers of every request of this kind that arrived."""
        return [entry["headers"] for entry in self.log if entry.get("rpc") == rpc]

    def gave_up(self, rpc: str) -> int:
        """How many requests of this kind were dropped while the server was silent."""
        return sum(entry.get("gave_up") == rpc for entry in self.log)

    def ran(self, tool: str) -> list[dict[str, Any]]:
        """The arguments of every call that was executed."""
        return [entry["arguments"] for entry in self.log if entry.get("ran") == tool]


@contextmanager
def serving(directory: Path, *options: object) -> Iterator[Served]:
    """Have a fake HTTP server running; it is killed on the way out, and until then its port stays its own."""
    log_file = directory / "http.log"
    log_file.touch()
    argv = [sys.executable, "-I", "-S", str(FAKE_HTTP), "--log", str(log_file)]
    with reserved() as port, bystander([*argv, "--port", str(port), *map(str, options)]) as process:
        yield Served(process, log_file, "https" if "--tls" in options else "http")


def remote(served: Served, **keys: Any) -> dict[str, Any]:
    """A config entry that reaches a server."""
    return {"url": served.url, "restart": {"policy": "on-failure", "delay": 0.1, "maxFailures": 1000}, **keys}


@dataclass
class HttpStage:
    """A run of an HTTP server with everything that it reports."""

    site: Site
    protocol: Protocol = "auto"
    patience: Patience = SHORT
    memory: Memory = field(default_factory=lambda: Memory(None))

    def __post_init__(self) -> None:
        self.events: list[Event] = []
        self.listings: list[list[str]] = []
        self.progress: list[Any] = []
        self.log = RingLog()
        self.end: End | None = None
        dialect = Dialect(self.protocol, max_line_bytes=LIMIT, limits=QUICK)
        listener = Listener(self._on_tools, lambda params: self.progress.append(msgspec.json.decode(params)))
        self.run = HttpRun(1, Remote(self.site, dialect, self.patience), self.memory, self.log, listener)

    async def _on_tools(self, definitions: list[msgspec.Raw]) -> None:
        self.listings.append([msgspec.json.decode(definition)["name"] for definition in definitions])

    async def live(self) -> None:
        self.end = await self.run.live(self.events.append)

    async def opened(self) -> None:
        await until(lambda: Opened(1) in self.events or self.end)
        assert self.end is None, self.end

    async def lost(self) -> str:
        return await until(lambda: next((e.end.detail for e in self.events if isinstance(e, Parted)), ""))

    async def ended(self) -> End:
        await until(lambda: self.end)
        assert self.end is not None
        return self.end

    def ask(self, tool: str, **arguments: Any) -> tuple[int, Asked]:
        asked = Asked()
        session = self.run.talk.session
        params = session.stamped({"name": tool, "arguments": arguments})
        return session.wire.request("tools/call", params, asked), asked

    async def call(self, tool: str, **arguments: Any) -> Asked:
        """Call a tool and wait for how that ends."""
        _, asked = self.ask(tool, **arguments)
        with anyio.fail_after(PATIENCE):
            await asked.done.wait()
        return asked


@asynccontextmanager
async def staged_at(site: Site | Served, **options: Any) -> AsyncGenerator[HttpStage]:
    """Have a run of the server at that site; it is cancelled on the way out."""
    stage = HttpStage(site if isinstance(site, Site) else Site("server", site.url), **options)
    async with anyio.create_task_group() as tg:
        tg.start_soon(stage.live)
        yield stage
        tg.cancel_scope.cancel()


@asynccontextmanager
async def opened_at(site: Site | Served, **options: Any) -> AsyncGenerator[HttpStage]:
    """Have a run that is ready."""
    async with staged_at(site, **options) as stage:
        await stage.opened()
        yield stage


def told(asked: Asked) -> str:
    """The one thing that an asker heard, in words."""
    (what,) = asked.told
    match what:
        case End(detail=detail):
            return f"lost: {detail}"
        case NotSent():
            return f"not sent: {what}"
        case SupervisorError(code=code):
            return f"unusable: {code}"
        case msgspec.Raw():
            answer = msgspec.json.decode(what)
            return f"refused: {answer['code']}" if "code" in answer else f"answered: {asked.text}"


def sockets() -> int:
    """How many sockets we hold."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(str(link.readlink()).startswith("socket:") for link in links)
