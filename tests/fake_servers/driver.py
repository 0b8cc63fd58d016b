"""Drives one fake server over real pipes; every wait is bounded."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FAKE = Path(__file__).parent / "fake.py"
PATIENCE = 20.0
META = "io.modelcontextprotocol/"
MODERN = {"_meta": {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}}


class Fake:
    """One fake server and the pipes to it; every wait ends within `PATIENCE` seconds."""

    def __init__(self, *options: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", FAKE, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={"CANARY": "yes"},
        )
        self._buffer = b""
        self._number = 0

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, payload: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(payload)
        self.process.stdin.flush()

    def read(self, *, until: Callable[[bytes], bool]) -> bytes:
        """All that is unread, once it satisfies `until`, or at the end of stdout."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while not until(self._buffer):
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, f"nothing more came after {self._buffer[:200]!r}"
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
            if not chunk:
                break
            self._buffer += chunk
        read, self._buffer = self._buffer, b""
        return read

    def line(self) -> bytes:
        line, _, rest = self.read(until=lambda unread: b"\n" in unread).partition(b"\n")
        self._buffer = rest
        return line

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.line())
        return message

    def ask(self, method: str, **params: Any) -> None:
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one request, which must be the next message."""
        self.ask(method, **params)
        answer = self.receive()
        assert answer["id"] == self._number
        return answer

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.request(method, **params)["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> str:
        text: str = self.result("tools/call", name=tool, arguments=arguments)["content"][0]["text"]
        return text

    def handshake(self) -> None:
        self.result("initialize", protocolVersion="2025-11-25", capabilities={})
        self.send({"method": "notifications/initialized"})

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def destroy(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            self.process.__exit__(None, None, None)


Start = Callable[..., Fake]


@contextmanager
def fakes() -> Iterator[Start]:
    """Start any number of them; none outlives the block."""
    started: list[Fake] = []

    def start(*options: str | Path) -> Fake:
        started.append(Fake(*options))
        return started[-1]

    try:
        yield start
    finally:
        for fake in started:
            fake.destroy()
