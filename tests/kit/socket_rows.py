"""Cases of the control socket, in the words of the kit: what a client can do to us."""

import json
from typing import Any

from supervisor.selftest.case import BAD, Answer, Case, Scene, Step
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import call, outcomes, said, state, texts
from tests.e2e.support import Client

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of a request; the daemon's own limit."""
LAST = b'{"jsonrpc":"2.0","id":"last","method":"supervisor/ping"}\n'
PING = b'{"jsonrpc":"2.0","id":%b,"method":"supervisor/ping"}'
IDS = (b"7", b'"7"', b"1.5", b"-0", b'"\\u00e9"', b"null", b"9" * 30)


def sent(*lines: bytes) -> Step:
    """Send these lines on a connection of their own, which must be as good afterwards."""

    def act(scene: Scene) -> None:
        with Client(scene.lab.socket) as client:
            client.write(b"".join(line + b"\n" for line in lines) + LAST)
            while b'"id":"last"' not in (line := client.line()):
                scene.answers.append(answer(line))

    return act


def sent_and_sent_away(content: bytes) -> Step:
    """Send this, and read until the daemon closes the connection."""

    def act(scene: Scene) -> None:
        with Client(scene.lab.socket) as client:
            client.write(content)
            while line := client.line():
                scene.answers.append(answer(line))

    return act


def answer(line: bytes) -> Answer:
    """What a line says: its code when it is an error, and itself without its line break."""
    told: Any = json.loads(line)
    error = told.get("error") if isinstance(told, dict) else None
    return Answer("ok" if error is None else str(error["code"]), line.decode().rstrip("\n"))


def interleaved(scene: Scene) -> None:
    """Two clients call with the same ids, each in its turn."""
    with Client(scene.lab.socket) as one, Client(scene.lab.socket) as other:
        for number in range(5):
            for client, name in ((one, "one"), (other, "other")):
                asked = {"name": f"{BAD}_echo", "arguments": {"text": f"{name} {number}"}}
                client.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": asked})
        for client in (one, other):
            answers = sorted((client.receive() for _ in range(5)), key=lambda each: each["id"])
            scene.answers += [Answer("ok", each["result"]["content"][0]["text"]) for each in answers]


ROWS = (
    Case(
        "S6",
        Promise.NO_HARM,
        given="a client sends bytes that are no JSON",
        when="they arrive",
        then="each line costs one error, and the connection goes on",
        acts=(sent(b"{", b"\xff\xfe", b"\x00", b"[1,", b"x" * 100_000), call("echo", text="mine")),
        checks=(outcomes(*["-32700"] * 5, "ok"),),
    ),
    Case(
        "S7",
        Promise.NO_HARM,
        given="a client sends an empty batch",
        when="it arrives",
        then="it is invalid, and the connection goes on",
        acts=(sent(b"[]", b" [ ] "),),
        checks=(outcomes("-32600", "-32600"),),
    ),
    Case(
        "S9",
        Promise.ACCOUNT,
        given="a client numbers its requests as it likes",
        when="they are answered",
        then="each id comes back as it was written",
        acts=(sent(*(PING % each for each in IDS)),),
        checks=(said(*(f'"id":{each.decode()},' for each in IDS)),),
    ),
    Case(
        "S10",
        Promise.TRUTH,
        given="a client asks for a method, a server and a tool that are not there",
        when="it is answered",
        then="each is named",
        acts=(
            sent(
                b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
                b'{"jsonrpc":"2.0","id":2,"method":"servers/get","params":{"server":"nobody"}}',
                b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"nothing"}}',
            ),
        ),
        checks=(said("no/such", "nobody", "nothing"), outcomes("-32601", "-32001", "-32002")),
    ),
    Case(
        "S11",
        Promise.NO_HARM,
        given="a client sends a line that is too long, and does not end it",
        when="it is over the limit",
        then="it is told so, and sent away",
        acts=(sent_and_sent_away(b'{"a":"'.ljust(LONGEST_LINE + 1, b"x")), call("echo", text="mine")),
        checks=(outcomes("-32009", "ok"),),
    ),
    Case(
        "S12",
        Promise.NO_HARM,
        given="a client nests without end",
        when="its line arrives",
        then="it costs one error, and the connection goes on",
        acts=(sent(b"[" * 1_000_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000),),
        checks=(outcomes("-32700", "-32700", "-32700"), state("connected")),
    ),
    Case(
        "S18",
        Promise.ACCOUNT,
        given="two clients use the same ids",
        when="they call in turns",
        then="each hears its own answers",
        acts=(interleaved,),
        checks=(texts(*(f"{name} {number}" for name in ("one", "other") for number in range(5))),),
    ),
)
