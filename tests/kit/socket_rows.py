"""Cases of the control socket, in the words of the kit: what a client can do to us."""

import json
from typing import Any

from supervisor.selftest.case import BAD, Answer, Case, Scene, Step
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import call, outcomes, said, state, texts
from tests.e2e.support import Client, fake

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of a request; the daemon's own limit."""
DEEPEST = 100
"""Levels of a request, likewise."""
LAST = b'{"jsonrpc":"2.0","id":"last","method":"supervisor/ping"}\n'
PING = b'{"jsonrpc":"2.0","id":%b,"method":"supervisor/ping"}'
TOO_DEEP = b'{"jsonrpc":"2.0","id":1,"method":"supervisor/ping","params":%b}' % (
    b"[" * DEEPEST + b"]" * DEEPEST
)
"""A parser alone would take it."""
CALLS = 5
QUICK = [0.001 * (number + 1) for number in range(CALLS)]
SLOW = [0.3 + 0.01 * number for number in range(CALLS)]
"""Seconds of each call, by which its answer is known."""
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
    """Two clients call with the same ids, now one first and now the other; one is answered all the while."""
    answers: dict[str, dict[int, str]] = {"quick": {}, "slow": {}}
    with Client(scene.lab.socket) as quick, Client(scene.lab.socket) as slow:
        for number in range(CALLS):
            pair = ((quick, QUICK), (slow, SLOW))
            for client, seconds in pair if number % 2 == 0 else reversed(pair):
                asked = {"name": f"{BAD}_sleep", "arguments": {"seconds": seconds[number]}}
                client.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": asked})
            hear(quick, answers["quick"])
        for _ in range(CALLS):
            hear(slow, answers["slow"])
    for heard in answers.values():
        scene.answers += [Answer("ok", heard[number]) for number in range(CALLS)]


def hear(client: Client, heard: dict[int, str]) -> None:
    told = client.receive()
    heard[told["id"]] = told["result"]["content"][0]["text"]


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
        given="a client nests without end, or only one level too deep",
        when="its line arrives",
        then="it costs one error, and the connection goes on",
        acts=(sent(b"[" * 1_000_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, TOO_DEEP),),
        checks=(outcomes(*["-32700"] * 4), state("connected")),
    ),
    Case(
        "S18",
        Promise.ACCOUNT,
        given="two clients use the same ids",
        when="they call in turns, and one is answered while the other waits",
        then="each hears its own answers",
        servers={BAD: fake()},
        acts=(interleaved,),
        checks=(texts(*(f"slept {seconds} s" for seconds in (*QUICK, *SLOW))),),
    ),
)
