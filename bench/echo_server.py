"""The server under every contender: plain Python without an SDK, as somebody would write one in an hour.

It reads a line, parses it, and answers with a line, in both protocol eras. It is no faster than that on
purpose: what a gateway costs is felt beside the cost of a server, and no real one answers without parsing.
"""

import json
import os
import sys
from typing import Any

_NAMES = ("echo", "big", "hang", "pid")
_IDENTITY = {"serverInfo": {"name": "echo", "version": "1"}, "capabilities": {"tools": {}}}
_CACHE = {"ttlMs": 0, "cacheScope": "private"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say back"},
        "bytes": {"type": "integer", "minimum": 0},
    },
    "additionalProperties": False,
}
_UNKNOWN = {"code": -32601, "message": "no such method"}

Message = dict[str, Any]


def definition(name: str) -> Message:
    """What the listing says of a tool."""
    return {
        "name": name,
        "title": "A tool of the benchmark",
        "description": "Says back what it was told, whoever asks and however often.",
        "inputSchema": _SCHEMA,
        "annotations": {"readOnlyHint": True},
    }


class EchoServer:
    """Answers one message at a time."""

    def __init__(self, tools: int) -> None:
        fillers = [f"tool_{number:04d}" for number in range(len(_NAMES), tools)]
        self._tools = [definition(name) for name in (*_NAMES, *fillers)]

    def answer(self, message: Message) -> Message | None:
        """The answer to a message; None when it gets none."""
        identity = message.get("id")
        if identity is None:
            return None
        result = self._result(message["method"], message.get("params", {}))
        if result is None:
            return None
        if "error" in result:
            return {"jsonrpc": "2.0", "id": identity, **result}
        return {"jsonrpc": "2.0", "id": identity, "result": {"resultType": "complete", **result}}

    def _result(self, method: str, params: Message) -> Message | None:
        match method:
            case "tools/call":
                return _called(params["name"], params.get("arguments", {}))
            case "tools/list":
                return {"tools": self._tools, **_CACHE}
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], **_IDENTITY, **_CACHE}
            case "initialize":
                return {"protocolVersion": params["protocolVersion"], **_IDENTITY}
            case _:
                return {"error": _UNKNOWN}


def _called(name: str, arguments: Message) -> Message | None:
    match name:
        case "hang":
            return None
        case "pid":
            text = str(os.getpid())
        case "big":
            text = "x" * arguments["bytes"]
        case _:
            text = arguments.get("text", "")
    return {"content": [{"type": "text", "text": text}], "isError": False}


def serve(server: EchoServer) -> None:
    """Answer until standard input ends."""
    for line in sys.stdin.buffer:
        answer = server.answer(json.loads(line))
        if answer is not None:
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()


def leave_a_child() -> None:
    """Have a descendant in a session of its own, deaf to SIGTERM, whose parent is gone."""
    import signal

    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def main() -> None:
    """`echo_server.py [--stubborn] [--brood] [--mark=TEXT] TOOLS`.

    A stubborn one outlives SIGTERM and the end of its input, one with a brood has a child that left it, and a
    mark only makes it findable.
    """
    *options, tools = sys.argv[1:]
    if "--brood" in options:
        leave_a_child()
    if "--stubborn" not in options:
        serve(EchoServer(int(tools)))
        return
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(EchoServer(int(tools)))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
