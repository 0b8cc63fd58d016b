"""What the tests of the runtime share: real children, recorders, and waits that end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

from supervisor.core.phases import End, Event, Lost, Opened
from supervisor.core.ringlog import RingLog
from supervisor.errors import SupervisorError
from supervisor.runtime import proctable
from supervisor.runtime.conversation import Dialect, Listener
from supervisor.runtime.process import Child, Command, spawn
from supervisor.runtime.session import Limits
from supervisor.runtime.stdio import Host, Program, StdioRun
from supervisor.runtime.wire import NotSent
from tests.files import whole_lines

FAKE = Path(__file__).parents[1] / "fake_servers" / "fake.py"
ROOT = Path(__file__).parents[2]
INSTANCE = f"instance-{os.getpid()}"
"""Names this process of the test run; another one must not take our children for its leftovers."""
PATIENCE = 10.0
"""Seconds after which something that must happen has not."""
QUICK = Limits(probe=0.2)
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}

LOOPS = pytest.mark.parametrize(
    "anyio_backend",
    [
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ],
)

Value = TypeVar("Value")


def fake(*options: object) -> list[str]:
    """The command line of the fake server."""
    return [sys.executable, "-I", "-S", str(FAKE), *map(str, options)]


def shell(script: str, **env: str) -> Command:
    """A command that runs a shell script, for what takes no server."""
    return Command(["/bin/sh", "-c", script], ENVIRON | env)


def python(script: str, **env: str) -> Command:
    return Command([sys.executable, "-I", "-S", "-c", script], ENVIRON | env)


def start(command: Command) -> Child:
    """A child whose pipes nobody needs."""
    child, pipes = spawn(command)
    pipes.close()
    return child


def children_of_ours() -> list[int]:
    """Our own direct children."""
    return proctable.children(os.getpid())


async def until(look: Callable[[], Value]) -> Value:
    """What `look` returns as soon as it is true."""
    with anyio.fail_after(PATIENCE):
        while not (value := look()):  # noqa: ASYNC110 - what other processes do is no event of ours
            await anyio.sleep(0.002)
    return value


def alive(pid: int) -> bool:
    found = proctable.entry(pid)
    return found is not None and not found.zombie


def number_in(path: Path) -> int:
    """The number that a process wrote to a file; 0 while it has not."""
    return int(path.read_text().strip() or 0) if path.exists() else 0


@contextmanager
def bystander(argv: list[str], **env: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that the code under test did not start; it is ended and reaped here."""
    process = subprocess.Popen(
        argv, env=ENVIRON | env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        with suppress(ChildProcessError):
            while os.waitpid(-process.pid, 0):
                pass  # its own children came to us when it died
        assert process.stdout is not None
        process.stdout.close()


def in_a_subprocess(script: str, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """What a script of ours prints; for limits and deaths that the test's own process must not suffer."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=env,
        capture_output=True,
        timeout=PATIENCE * 2,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Stage:
    """A run of a stdio server with everything that it reports."""

    def __init__(self, host: Host, argv: Sequence[str], dialect: Dialect, env: Mapping[str, str]) -> None:
        self.host = host
        self.events: list[Event] = []
        self.listings: list[list[str]] = []
        self.progress: list[Any] = []
        self.log = RingLog()
        self.end: End | None = None
        program = Program("server", Command(argv, {**ENVIRON, **env}), dialect)
        listener = Listener(self._on_tools, lambda params: self.progress.append(msgspec.json.decode(params)))
        self.run = StdioRun(1, program, host, self.log, listener)

    async def _on_tools(self, definitions: list[msgspec.Raw]) -> None:
        self.listings.append([msgspec.json.decode(definition)["name"] for definition in definitions])

    async def live(self) -> None:
        self.end = await self.run.live(self.events.append)

    @property
    def pid(self) -> int:
        assert self.run.pid is not None
        return self.run.pid

    @property
    def stderr(self) -> list[str]:
        return [line.text for line in self.log.tail(1000)]

    async def opened(self) -> None:
        """Wait until the server is ready."""
        await until(lambda: Opened(1) in self.events)

    async def lost(self) -> str:
        """Wait until the server is given up, and say why."""
        return await until(lambda: next((e.detail for e in self.events if isinstance(e, Lost)), ""))

    async def ended(self) -> End:
        """Wait until nothing of the run is left."""
        await until(lambda: self.end is not None)
        assert self.end is not None
        return self.end

    async def call(self, tool: str, **arguments: Any) -> "Asked":
        """Call a tool and wait for how that ends."""
        asked = self.ask(tool, **arguments)
        with anyio.fail_after(PATIENCE):
            await asked.done.wait()
        return asked

    def ask(self, tool: str, **arguments: Any) -> "Asked":
        asked = Asked()
        session = self.run.talk.session
        params = session.stamped({"name": tool, "arguments": arguments})
        session.wire.request("tools/call", params, asked)
        return asked


class Asked:
    """A request, and everything it was told; more than one thing is one too many."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.told: list[msgspec.Raw | End | NotSent | SupervisorError] = []

    def answered(self, result: msgspec.Raw) -> None:
        self._note(result)

    def refused(self, error: msgspec.Raw) -> None:
        self._note(error)

    def unusable(self, problem: SupervisorError) -> None:
        self._note(problem)

    def lost(self, end: End) -> None:
        self._note(end)

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:
        self._note(NotSent(detail, retry_after))

    def _note(self, what: msgspec.Raw | End | NotSent | SupervisorError) -> None:
        self.told.append(what)
        self.done.set()

    @property
    def text(self) -> str:
        """What the tool said, if that was all."""
        (answer,) = self.told
        assert isinstance(answer, msgspec.Raw), answer
        text: str = msgspec.json.decode(answer)["content"][0]["text"]
        return text


@asynccontextmanager
async def staged(
    host: Host, argv: Sequence[str], dialect: Dialect | None = None, **env: str
) -> AsyncGenerator[Stage]:
    """Have a server running; it is cancelled on the way out, as when the daemon dies of a bug."""
    stage = Stage(host, argv, dialect or Dialect(limits=QUICK), env)
    async with anyio.create_task_group() as tg:
        tg.start_soon(stage.live)
        yield stage
        tg.cancel_scope.cancel()


# What fake servers write down, and one for faults that they lack.


def received(log: Path) -> list[str]:
    """The methods that a fake server received, by its log; of all its processes."""
    records = [json.loads(line) for line in whole_lines(log)]
    return [record["received"].get("method") for record in records if "received" in record]


def starts(log: Path) -> int:
    """How many processes a fake server was, by its log."""
    return log.read_text().count('{"started":') if log.exists() else 0


SMALL_SERVER = """
import json, sys
lists = 0
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message["method"], {}
    if method == "initialize":
        answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    elif method == "tools/list":
        lists += 1
        if lists == %(silent_at)d:
            continue
        answer = {"tools": "none" if lists == %(broken_at)d else [{"name": f"tool_{lists}"}]}
    if "id" in message:
        print(json.dumps({"id": message["id"], "result": answer}), flush=True)
    if method == "tools/call":
        %(on_call)s
"""
TELL = 'print(json.dumps({"method": "notifications/tools/list_changed"}), flush=True)'


def small_server(
    *, before: str = "", silent_at: int = 0, broken_at: int = 0, on_call: str = "pass"
) -> list[str]:
    """A server for faults that the fake one lacks: one list goes wrong, or a call has an effect."""
    script = SMALL_SERVER % {"silent_at": silent_at, "broken_at": broken_at, "on_call": on_call}
    return [sys.executable, "-I", "-S", "-c", before + script]
