"""Any bytes on the control socket: at most their own connection is lost, and everybody else is served."""

import json
import os
import random
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from supervisor.surfaces.methods import METHODS
from tests.e2e.support import PATIENCE, Client, Daemon, Launcher, fake, launching

EXAMPLES = int(os.environ.get("FUZZ", "60"))
"""How much is tried; `make fuzz` says more."""
BRIEFLY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
HARMLESS = sorted(set(METHODS) - {"supervisor/shutdown"})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with launching(tmp_path_factory.mktemp("fuzz")) as launcher:
        yield started(launcher)


def started(launcher: Launcher) -> Daemon:
    daemon = launcher.start({"a": fake(), "b": fake(maxConcurrency=1)})
    daemon.client.result("tools/list")
    return daemon


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


@BRIEFLY
@given(content=damaged(), cuts=st.integers(0, 1 << 16), half_close=st.booleans())
def test_no_bytes_on_the_socket_cost_more_than_their_own_connection(
    daemon: Daemon, content: bytes, cuts: int, half_close: bool
) -> None:
    with Client(daemon.socket) as stranger:
        for piece in pieces(content, cuts):
            stranger.write(piece)
        if half_close:
            stranger.socket.shutdown(socket.SHUT_WR)
            assert all(is_message(line) for line in iter(stranger.line, b""))

    assert daemon.process.poll() is None
    assert daemon.client.result("supervisor/ping") == {}


def pieces(content: bytes, seed: int) -> Iterator[bytes]:
    """The bytes in pieces of any size, as a stream may deliver them."""
    chance, at = random.Random(seed), 0
    while at < len(content):
        length = chance.choice((1, 2, 7, 64, len(content)))
        yield content[at : at + length]
        at += length


def is_message(line: bytes) -> bool:
    """Whether it is JSON-RPC to the letter, or a batch of it."""
    found = json.loads(line)
    each = found if isinstance(found, list) else [found]
    return bool(each) and all(one["jsonrpc"] == "2.0" and ("id" in one) != ("method" in one) for one in each)


def test_after_all_of_it_calls_are_answered_and_no_error_was_internal(daemon: Daemon) -> None:
    daemon.client.socket.settimeout(PATIENCE)
    for server in ("a", "b"):
        daemon.client.result("servers/enable", server=server)

    assert daemon.client.text("a_echo", text="well") == '{"text": "well"}'
    assert [line["message"] for line in daemon.logged("error") if "exception" in line] == []
