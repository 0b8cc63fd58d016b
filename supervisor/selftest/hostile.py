"""A server that misbehaves as its arguments and its callers ask; the standard library alone, run by its path.

What it does, and every process that it starts, it writes as JSON lines to `journal` in its working directory,
so that nobody has to believe the daemon. What is not polite ends by itself after `LIFETIME` seconds, in case
that it is forgotten.

Manners, as arguments:
    polite        write no journal, and live as long as input does
    exit-3        say a word to stderr, and exit at once
    mute          read, and never answer
    parrot        send back what was sent
    stubborn      live on after SIGTERM and the end of input
    witness       note SIGTERM, and once more a while later, if it lives on so long
    escape        start a process that leaves group and session, loses its parent, and is stubborn
    family        start a process that stays in the group, holds stdout, and is stubborn
    babble        surround every answer with lines that are no JSON, foreign answers and broken UTF-8
    endless       list tools without end
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

LIFETIME = 180
JOURNAL = "journal"
NOISE = b'starting up...\n\xff\xfe\n{"jsonrpc":"2.0","id":987654,"result":{}}\n[1,2\n'
A_WHILE = 0.3
"""Seconds that a witness lives on before it says so."""
SOMETIMES = 100
"""Notifications in one write."""

Json = dict[str, Any]


def write(descriptor: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]


def dump(message: Json) -> bytes:
    return json.dumps(message).encode() + b"\n"


def started_at(pid: int) -> int:
    """When the process was started, in ticks since boot; with its pid it names one process only."""
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    text = os.read(descriptor, 4096)
    os.close(descriptor)
    return int(text[text.rindex(b")") + 2 :].split()[19])


class Hostile:
    """One conversation over stdin and stdout."""

    def __init__(self, manners: list[str]) -> None:
        self.manners = manners
        self.reading = True
        self.answers = 0

    def note(self, **record: Any) -> None:
        if "polite" in self.manners:
            return
        descriptor = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        write(descriptor, dump(record))
        os.close(descriptor)

    def note_process(self) -> None:
        self.note(pid=os.getpid(), started=started_at(os.getpid()), manners=self.manners)

    def live(self) -> None:
        """Do what the manners say, then serve until input ends."""
        if "polite" not in self.manners:
            signal.alarm(LIFETIME)
        if "stubborn" in self.manners:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "witness" in self.manners:
            signal.signal(signal.SIGTERM, self.outlast)
        self.note_process()
        if "escape" in self.manners:
            self.multiply(self.escape)
        if "family" in self.manners:
            self.multiply(self.stay)
        if "exit-3" in self.manners:
            write(2, b"cannot go on, as asked\n")
            self.note(leaver=os.getpid(), left=time.clock_gettime(time.CLOCK_BOOTTIME))
            os._exit(3)
        self.serve()
        while "stubborn" in self.manners:
            signal.pause()

    def outlast(self, _number: int, _frame: object) -> None:
        self.note(heard="SIGTERM")
        time.sleep(A_WHILE)
        self.note(outlasted="SIGTERM")

    def multiply(self, life: Callable[[int], None]) -> None:
        """Fork, and go on once the new process has noted itself."""
        readable, writable = os.pipe()
        child = os.fork()
        if not child:
            os.close(readable)
            life(writable)
        os.close(writable)
        os.read(readable, 1)
        os.close(readable)

    def escape(self, writable: int) -> None:
        os.setsid()
        if os.fork():
            os._exit(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        self.stay(writable)

    def stay(self, writable: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.alarm(LIFETIME)
        self.note_process()
        os.close(writable)
        while True:
            signal.pause()

    def serve(self) -> None:
        buffer = b""
        while chunk := os.read(0, 1 << 20):
            if "parrot" in self.manners:
                write(1, chunk)
                continue
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                self.hear(json.loads(line))
            while not self.reading:
                signal.pause()

    def hear(self, message: Json) -> None:
        method = message.get("method")
        params: Json = message.get("params") or {}
        self.answers += method is None
        if "mute" in self.manners or method is None:
            return
        if "id" not in message:
            self.note(notified=method)
        elif method == "initialize":
            self.answer(message, greeting(params))
        elif method == "tools/list":
            self.answer(message, self.page(params))
        elif method == "tools/call":
            self.note(called=params["name"])
            TOOLS[params["name"]](self, message, params.get("arguments") or {})
        else:
            self.reply(message, error={"code": -32601, "message": "cannot do that"})

    def page(self, params: Json) -> Json:
        tools = [
            {"name": name, "description": str(tool.__doc__), "inputSchema": {"type": "object"}}
            for name, tool in TOOLS.items()
        ]
        if "endless" not in self.manners:
            return {"tools": tools}
        number = int(params.get("cursor") or 0)
        return {"tools": [{**tools[0], "name": f"endless_{number}"}], "nextCursor": str(number + 1)}

    def answer(self, request: Json, result: Json) -> None:
        self.reply(request, result=result)

    def say(self, request: Json, text: str) -> None:
        self.answer(request, {"content": [{"type": "text", "text": text}]})

    def reply(self, request: Json, **body: Any) -> None:
        noise = NOISE if "babble" in self.manners else b""
        write(1, noise + dump({"jsonrpc": "2.0", "id": request["id"], **body}) + noise)


def greeting(params: Json) -> Json:
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    }


def echo(server: Hostile, request: Json, arguments: Json) -> None:
    """Answers with the text that it was given."""
    server.say(request, str(arguments.get("text", "")))


def crash(_server: Hostile, _request: Json, arguments: Json) -> None:
    """Exits in the middle of the call."""
    write(2, b"about to crash, as asked\n")
    os._exit(arguments.get("code", 7))


def half(_server: Hostile, _request: Json, _arguments: Json) -> None:
    """Exits in the middle of its answer."""
    write(1, b'{"jsonrpc":"2.0","id":')
    os._exit(0)


def hang(_server: Hostile, _request: Json, _arguments: Json) -> None:
    """Never answers."""


def refuse(server: Hostile, request: Json, _arguments: Json) -> None:
    """Answers with a failure of its own."""
    server.answer(request, {"content": [{"type": "text", "text": "no"}], "isError": True})


def twice(server: Hostile, request: Json, _arguments: Json) -> None:
    """Answers two times."""
    server.say(request, "first")
    server.say(request, "second")


def shout(server: Hostile, request: Json, arguments: Json) -> None:
    """Writes so many `bytes` to stderr, then answers."""
    line = b"." * 1023 + b"\n"
    for _ in range(arguments["bytes"] // len(line)):
        write(2, line)
    server.say(request, "said")


def chatter(server: Hostile, request: Json, arguments: Json) -> None:
    """Sends so many notifications (`count`), then answers."""
    told = dump({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    for _ in range(arguments["count"] // SOMETIMES):
        write(1, told * SOMETIMES)
    server.say(request, "told")


def pester(server: Hostile, request: Json, arguments: Json) -> None:
    """Asks the client so many things (`count`) without reading an answer, then answers itself."""
    for number in range(arguments["count"]):
        write(1, dump({"jsonrpc": "2.0", "id": f"mine-{number}", "method": "ping"}))
    server.say(request, "asked")


def tally(server: Hostile, request: Json, _arguments: Json) -> None:
    """Says how many answers it has read."""
    server.say(request, str(server.answers))


def hoard(server: Hostile, request: Json, arguments: Json) -> None:
    """Opens so many descriptors (`count`) and closes none."""
    for _ in range(arguments["count"]):
        os.dup(0)
    server.say(request, "mine")


def gush(_server: Hostile, _request: Json, arguments: Json) -> None:
    """Writes so many `bytes` of a line, and never its end."""
    for _ in range(arguments["bytes"] >> 16):
        write(1, b"x" * (1 << 16))
    while True:
        signal.pause()


def shut(server: Hostile, request: Json, _arguments: Json) -> None:
    """Answers, closes stdout and lives on."""
    server.say(request, "now mute")
    os.close(1)


def deafen(server: Hostile, request: Json, _arguments: Json) -> None:
    """Answers, and reads nothing ever again."""
    server.say(request, "now deaf")
    server.reading = False


TOOLS: dict[str, Callable[[Hostile, Json, Json], None]] = {
    tool.__name__: tool
    for tool in (
        *(echo, crash, half, hang, refuse, twice, shout),
        *(chatter, pester, tally, hoard, gush, shut, deafen),
    )
}

if __name__ == "__main__":
    Hostile(sys.argv[1:]).live()
