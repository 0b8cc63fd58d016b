"""A scripted server at the other end of a session's wire, in memory."""

import json
from collections.abc import Callable
from typing import Any

import anyio

from supervisor.core.eras import MODERN
from supervisor.core.jsonrpc import Message
from supervisor.runtime.session import Session
from supervisor.runtime.wakefulness import Wakefulness
from supervisor.runtime.wire import PipeWire

HANDSHAKE = "2025-11-25"
UNKNOWN_METHOD = {"code": -32601, "message": "cannot find this method"}
TOOLS = {"tools": {"listChanged": True}}
LEGACY_HELLO = {"result": {"protocolVersion": HANDSHAKE, "capabilities": TOOLS}}
MODERN_HELLO = {"result": {"supportedVersions": [MODERN], "capabilities": TOOLS}}
REFUSED = {"error": UNKNOWN_METHOD}

Answer = dict[str, Any]
"""The members that a scripted answer has beside its id."""


class Peer:
    """A server that answers by a script, at once; a method without an answer is met with silence."""

    closed = False
    untaken = 0

    def __init__(self, **script: Answer | Callable[[dict[str, Any]], Answer]) -> None:
        self.script = {name.replace("_", "/"): answer for name, answer in script.items()}
        self.received: list[dict[str, Any]] = []
        self.noise: list[bytes] = []
        self.wire = PipeWire(
            framing="newline",
            limit=1_000_000,
            on_message=self._hear,
            on_noise=self.noise.append,
            on_broken=lambda _: None,
        )
        self.wire.attach(self, Wakefulness(lambda _: None))
        self.session = Session(self.wire)

    def _hear(self, message: Message) -> None:
        self.session.receive(message)

    def write(self, line: bytes) -> bool:
        self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        self.received.append(message)
        answer = self.script.get(message.get("method"))
        if answer is not None and "id" in message:
            self.answers(message, answer(message["params"]) if callable(answer) else answer)

    def answers(self, request: dict[str, Any], answer: Answer) -> None:
        self.says({"id": request["id"], **answer})

    def says(self, message: dict[str, Any]) -> None:
        self.wire.feed(json.dumps(message).encode() + b"\n")

    @property
    def methods(self) -> list[str]:
        """What it was asked and told, in order."""
        return [message["method"] for message in self.received if "method" in message]

    def asked(self, method: str) -> dict[str, Any]:
        return next(message for message in self.received if message.get("method") == method)


class Echo(Peer):
    """Not a server at all: `cat`."""

    def _take(self, line: bytes) -> None:
        self.wire.feed(line)


async def negotiate(peer: Peer, *, probe: bool = True) -> Session:
    with anyio.fail_after(60):
        await peer.session.negotiate(probe=probe)
    return peer.session
