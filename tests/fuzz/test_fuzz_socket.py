"""Any bytes on the control socket: at most their own connection is lost, and everybody else is served."""

import json
import os
import random
import re
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from supervisor.surfaces.methods import METHODS
from tests.e2e.support import Client, fake
from tests.fuzz.laboratory import LONG, Laboratory, laboratory

EXAMPLES = int(os.environ.get("FUZZ", "60"))
"""How much is tried; `make fuzz` says more."""
BRIEFLY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
HARMLESS = sorted(set(METHODS) - {"supervisor/shutdown"})
SERVERS = {"a": fake(), "b": fake(maxConcurrency=1)}
LONGEST = 2 << 20
"""Bytes of a request; twice what is read however hard it is to read."""
HEAVY = b'{"jsonrpc":"2.0","id":"heavy","method":"supervisor/ping","params":[%s1]}' % (b"1," * 1_000_000)
HUGE = {b"<heavy>": HEAVY, b"<long>": b"x" * (LONGEST + 1)}
"""What stands in drawn bytes for what nobody wants to read."""
LAST_WORD = "the last word"
"""The id of our last question."""
NAMED = re.compile(r'"id"\s*:\s*')


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    limits = {"requestBytes": LONGEST}
    with laboratory(tmp_path_factory.mktemp("fuzz"), SERVERS, mended=mended, limits=limits) as lab:
        yield lab


def mended(lab: Laboratory) -> None:
    """Have both servers answer, whatever was ordered."""
    for server in SERVERS:
        lab.client.request("servers/enable", {"server": server})
        lab.client.request("servers/start", {"server": server})
        assert lab.client.server(server)["state"] == "connected"
        assert json.loads(said_by(lab, f"{server}_echo")) == {"text": "well"}


def said_by(lab: Laboratory, tool: str) -> str:
    said: str = lab.client.call(tool, {"text": "well"})["content"][0]["text"]
    return said


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
known_params = st.fixed_dictionaries(
    {},
    optional={
        "server": st.sampled_from(["a", "b", "none"]) | json_values,
        "name": st.sampled_from(["a_echo", "b_sleep", "a_big", "none"]) | json_values,
        "arguments": json_values,
        "since": json_values,
        "tools": json_values,
        "timeout": st.sampled_from([0.01, 0, -1, "1", 1e300]),
        "_meta": json_values,
        "wait": json_values,
        "requestId": json_values,
    },
)
messages = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2]) | st.just("2.0")},
    optional={
        "id": st.integers() | st.text(max_size=5) | json_values,
        "method": st.sampled_from(HARMLESS) | st.text(max_size=10) | json_values,
        "params": known_params | json_values,
    },
)
lines = st.one_of(
    messages.map(lambda message: json.dumps(message).encode()),
    st.lists(messages, max_size=4).map(lambda batch: json.dumps(batch).encode()),
    st.binary(max_size=200).filter(lambda line: b"shutdown" not in line),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.integers(1, 300).map(lambda depth: b"[" * depth),
    st.sampled_from(sorted(HUGE)),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Lines with bytes flipped, dropped and doubled, and no end where one belongs."""
    content = bytearray(b"\n".join(draw(st.lists(lines, max_size=6))) + draw(st.sampled_from([b"\n", b""])))
    for _ in range(draw(st.integers(0, 4))):
        if content:
            at = draw(st.integers(0, len(content) - 1))
            content[at : at + 1] = draw(st.binary(max_size=3))
    return bytes(content)


@LONG
@BRIEFLY
@given(content=damaged(), cuts=st.integers(0, 1 << 16), half_close=st.booleans())
def test_no_bytes_on_the_socket_cost_more_than_their_own_connection(
    lab: Laboratory, content: bytes, cuts: int, half_close: bool
) -> None:
    with Client(lab.socket) as stranger:
        said = pieces(unfolded(content), cuts)
        answers = messages_in(conversation(stranger, said, half_close=half_close))

    assert all(map(is_message, answers))
    assert not said_of(answers) - asked_in(unfolded(content))
    assert lab.exit_status() is None
    assert lab.client.request("supervisor/ping") == {}


def unfolded(content: bytes) -> bytes:
    for sign, huge in HUGE.items():
        content = content.replace(sign, huge)
    return content


def conversation(stranger: Client, said: Iterator[bytes], *, half_close: bool) -> list[bytes]:
    """All that is answered, until nothing more can come or until the last question is answered."""
    try:
        for piece in said:
            stranger.write(piece)
        if half_close:
            stranger.socket.shutdown(socket.SHUT_WR)
        else:
            stranger.write(b"\n")
            stranger.send({"jsonrpc": "2.0", "id": LAST_WORD, "method": "supervisor/ping"})
    except (BrokenPipeError, ConnectionResetError):
        """What was said was too long, and the answer says so."""
    return list(until_the_last_word(stranger))


def until_the_last_word(stranger: Client) -> Iterator[bytes]:
    """What is answered before the connection ends, or our last question is."""
    try:
        for line in iter(stranger.line, b""):
            if LAST_WORD.encode() in line:
                return
            yield line
    except ConnectionResetError:
        """It was ended with bytes of ours unread."""


def pieces(content: bytes, seed: int) -> Iterator[bytes]:
    """The bytes in pieces of any size, as a stream may deliver them."""
    chance, at = random.Random(seed), 0
    while at < len(content):
        length = chance.choice((1, 2, 7, 64, len(content)))
        yield content[at : at + length]
        at += length


def messages_in(lines: list[bytes]) -> list[dict[str, Any]]:
    """Each message, those of batches too."""
    found = [json.loads(line) for line in lines]
    assert all(found), "an empty batch was answered"
    return [each for one in found for each in (one if isinstance(one, list) else [one])]


def is_message(message: dict[str, Any]) -> bool:
    """Whether it is JSON-RPC to the letter: an answer with either, or a notification."""
    answers = "id" in message and ("result" in message) != ("error" in message)
    return message["jsonrpc"] == "2.0" and answers != ("method" in message)


def said_of(answers: list[dict[str, Any]]) -> Counter[str]:
    """How often each id was answered; null is for what has none, or none that can be read."""
    return Counter(json.dumps(answer["id"]) for answer in answers if answer.get("id") is not None)


def asked_in(content: bytes) -> Counter[str]:
    """All that may be an id in what was said, whether or not it is one."""
    text, read = content.decode(errors="replace"), json.JSONDecoder().raw_decode
    found = Counter[str]()
    for name in NAMED.finditer(text):
        try:
            found[json.dumps(read(text, name.end())[0])] += 1
        except ValueError:
            continue
    return found
