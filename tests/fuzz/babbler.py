"""A server that speaks MCP, and says drawn bytes beside it; its one argument is the file that says which.

It begins with what is `early`, greets and lists properly, and waits until so many `calls` have come. Each
answer then has `before` and `after` around it and `inside` within, and goes out in pieces of the sizes in
`cuts`. What it hears goes to `.heard` beside that file, and what it says to `.said` before it is said. Then
it stays or leaves, and in any case ends itself after a minute.
"""

import base64
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
MODERN = "2026-07-28"
MOST_PIECES = 64
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]


class Babbler:
    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib imports much, and a server must start fast
            self.told: Json = json.load(file)
        self.path = path
        self.calls: list[tuple[object, str]] = []
        self.sizes = itertools.cycle(self.told["cuts"])

    def drawn(self, what: str) -> bytes:
        return base64.b64decode(self.told[what])

    def keep(self, suffix: str, content: bytes) -> None:
        with open(self.path + suffix, "ab") as file:  # noqa: PTH123
            file.write(content)

    def say(self, content: bytes) -> None:
        self.keep(".said", content)
        least = len(content) // MOST_PIECES
        while content:
            size = max(next(self.sizes), least)
            piece, content = content[:size], content[size:]
            while piece:
                piece = piece[os.write(1, piece) :]

    def framed(self, message: Json) -> bytes:
        content = json.dumps({"jsonrpc": "2.0", **message}).encode()
        if self.told["framing"] == "newline":
            return content + b"\n"
        return b"Content-Length: %d\r\n\r\n%s" % (len(content), content)

    def live(self) -> None:
        signal.alarm(60)
        os.write(2, self.drawn("err"))
        self.say(self.drawn("early"))
        for message in self.messages():
            if "id" in message and "method" in message:
                self.hear(message)
        if self.told["stays"]:
            signal.pause()

    def messages(self) -> Iterator[Json]:
        with os.fdopen(0, "rb") as source:
            while line := source.readline():
                if line.lower().startswith(b"content-length:"):
                    source.readline()
                    yield json.loads(source.read(int(line.partition(b":")[2])))
                else:
                    yield json.loads(line)

    def hear(self, message: Json) -> None:
        method, identity = message["method"], message["id"]
        if method == "tools/call":
            self.call(message)
        elif method == "initialize":
            self.say(self.framed({"id": identity, "result": greeting(message["params"])}))
        elif method == "tools/list":
            self.say(self.framed({"id": identity, "result": {"resultType": "complete", "tools": TOOLS}}))
        elif method == "server/discover" and self.told["modern"]:
            self.say(self.framed({"id": identity, "result": introduction()}))
        else:
            self.say(self.framed({"id": identity, "error": {"code": -32601, "message": "no"}}))

    def call(self, message: Json) -> None:
        text = message["params"]["arguments"]["text"]
        self.keep(".heard", json.dumps({"id": message["id"], "text": text}).encode() + b"\n")
        self.calls.append((message["id"], text))
        if len(self.calls) >= self.told["calls"]:
            for identity, said in self.calls:
                self.answer(identity, said)
            self.calls.clear()
            if not self.told["stays"]:
                os._exit(0)

    def answer(self, identity: object, text: str) -> None:
        content = [{"type": "text", "text": text}]
        framed = self.framed({"id": identity, "result": {"resultType": "complete", "content": content}})
        at = int(len(framed) * self.told["at"])
        inside = framed[:at] + self.drawn("inside") + framed[at:]
        self.say(self.drawn("before") + inside + self.drawn("after"))


def greeting(params: Json) -> Json:
    return {**introduction(), "protocolVersion": params["protocolVersion"]}


def introduction() -> Json:
    return {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "babbler", "version": "1"},
    }


if __name__ == "__main__":
    Babbler(sys.argv[1]).live()
