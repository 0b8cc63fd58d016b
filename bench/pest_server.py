"""`pest_server.py HABIT`: a server that greets, then answers nobody and bothers whoever holds its pipes."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable

PIECE = 100
"""Messages in one write."""
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"all well"}}\n'
QUESTION = b'{"jsonrpc":"2.0","id":"q","method":"ping"}\n'
GARBAGE = b"INFO  2026-11-18 12:00:00 still here, still printing to the wrong stream\n"


def write(descriptor: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]


def flood(descriptor: int, message: bytes) -> None:
    while True:
        write(descriptor, message * PIECE)


def crash() -> None:
    time.sleep(0.2)
    os._exit(1)


def sleep() -> None:
    """Be no pest at all: what the others are compared with."""
    threading.Event().wait()


HARMLESS = "sleep"
CRASHES = "crash"
HABITS: dict[str, Callable[[], None]] = {
    HARMLESS: sleep,
    "notices": lambda: flood(1, NOTICE),
    "questions": lambda: flood(1, QUESTION),
    "garbage": lambda: flood(1, GARBAGE),
    "stderr": lambda: flood(2, GARBAGE),
    CRASHES: crash,
}


def greet() -> None:
    """Answer until the tools have been listed."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        result = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": []},
        }.get(message["method"])
        if "id" in message:
            body = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
            write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode() + b"\n")
        if message["method"] == "tools/list":
            return


if __name__ == "__main__":
    greet()
    HABITS[sys.argv[1]]()
