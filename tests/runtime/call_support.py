"""Calls whose server and client are the test itself, which writes down all that each hears."""

import json
from typing import Any

import anyio
import msgspec

from supervisor.errors import Outcome, SupervisorError
from supervisor.runtime.calls import Call, CallRequest, Deadlines
from supervisor.runtime.wakefulness import Wakefulness
from supervisor.runtime.wire import PipeWire


class Ends:
    """Where calls end: what the client hears and what the desk counts."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.outcomes: list[Outcome] = []
        self.server = "files"
        self.max_result_bytes = 2000
        self.cuts = 0
        self.deadlines = Deadlines(anyio.current_time)

    def result(self, raw: bytes | msgspec.Raw) -> None:
        self.heard.append(msgspec.json.decode(raw))

    def fault(self, raw: bytes | msgspec.Raw) -> None:
        self.heard.append(msgspec.json.decode(raw))

    def error(self, error: SupervisorError) -> None:
        self.heard.append(error)

    def notify(self, method: str, params: bytes) -> None:
        self.heard.append((method, json.loads(params)))

    def ended(self, call: Call, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.deadlines.discard(call)

    def cut(self) -> None:
        self.cuts += 1

    def account(self, outcome: Outcome) -> dict[str, object]:
        return {"server": self.server, "outcome": outcome}


class Sent:
    """A call on a wire whose other end is this object."""

    closed = False
    untaken = 0

    def __init__(self, ends: Ends, *, flatten: bool = False) -> None:
        self.written: list[dict[str, Any]] = []
        self.noise: list[bytes] = []
        self.wire = PipeWire(
            framing="newline",
            limit=100_000,
            on_message=lambda _: None,
            on_noise=self.noise.append,
            on_broken=lambda _: None,
        )
        self.wire.attach(self, Wakefulness(lambda _: None))
        self.call = Call(ends, CallRequest("files_read", flatten=flatten), ends, "client")
        self.call.wire, self.call.number = self.wire, self.wire.request("tools/call", b"{}", self.call)

    def write(self, line: bytes) -> bool:
        self.written.append(json.loads(line))
        return True

    def answer(self, **members: Any) -> None:
        self.wire.feed(json.dumps({"id": 1, **members}).encode() + b"\n")


async def run_for(ends: Ends, seconds: float) -> None:
    async with anyio.create_task_group() as tg:
        tg.start_soon(ends.deadlines.run)
        await anyio.sleep(seconds)
        tg.cancel_scope.cancel()
