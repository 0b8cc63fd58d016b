"""The demo server as a client meets it: a child process, lines over pipes, in both protocol eras."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import supervisor

PATIENCE = 10.0
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Json = dict[str, Any]


class Client:
    """One child and the two ends of its pipes; every read is bounded."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "supervisor.demo"]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.stdin, self.stdout = self.child.stdin, self.child.stdout
        self._lines: list[bytes] = []
        self._rest = b""

    def send(self, *messages: object) -> None:
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        self.stdin.write(b"".join(line + b"\n" for line in lines))

    def receive(self) -> Any:
        while not self._lines:
            readable, _, _ = select.select([self.stdout], [], [], PATIENCE)
            assert readable, "the server did not answer in time"
            chunk = os.read(self.stdout.fileno(), 65536)
            assert chunk, "the server closed its output"
            *self._lines, self._rest = (self._rest + chunk).split(b"\n")
        return json.loads(self._lines.pop(0))

    def ask(self, method: str, **params: Any) -> Any:
        self.send(request("ask", method, **params))
        reply = self.receive()
        assert reply["id"] == "ask"
        return reply.get("error") or reply["result"]

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=name, arguments=arguments)

    def close(self) -> int:
        self.stdin.close()
        return self.child.wait(PATIENCE)


def request(request_id: object, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def wait_call(request_id: object, seconds: float, **meta: Any) -> Json:
    return request(request_id, "tools/call", name="wait_seconds", arguments={"seconds": seconds}, _meta=meta)


def text_of(result: Json) -> str:
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    try:
        yield client
        client.close()
    finally:
        client.child.kill()
        client.child.wait(PATIENCE)
        client.stdin.close()
        client.stdout.close()


# Eras.


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_a_handshake_settles_on_the_version_asked_for(client: Client, version: str) -> None:
    hello = client.ask("initialize", protocolVersion=version, capabilities={}, clientInfo={})

    assert hello["protocolVersion"] == version
    assert hello["serverInfo"]["name"] == "mcp-supervisor-demo"
    assert hello["capabilities"] == {"tools": {}}


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01"])
def test_a_handshake_for_any_other_version_is_offered_the_newest_of_that_era(
    client: Client, version: str
) -> None:
    assert client.ask("initialize", protocolVersion=version)["protocolVersion"] == "2025-11-25"


def test_the_old_era_answers_a_ping_and_carries_no_modern_fields(client: Client) -> None:
    assert client.ask("ping") == {}
    assert client.ask("tools/list").keys() == {"tools"}
    assert client.call("hash_text", text="").keys() == {"content", "structuredContent", "isError"}


def test_the_modern_era_is_discovered_without_a_handshake(client: Client) -> None:
    hello = client.ask("server/discover", _meta=ENVELOPE)

    assert hello["supportedVersions"] == ["2026-07-28"]
    assert hello["resultType"] == "complete"
    assert hello["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcp-supervisor-demo"


@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
def test_modern_listings_say_how_long_they_may_be_kept(client: Client, method: str) -> None:
    listing = client.ask(method, _meta=ENVELOPE)

    assert listing["resultType"] == "complete"
    assert listing["ttlMs"] > 0
    assert listing["cacheScope"] == "public"


def test_a_modern_call_is_complete_and_not_cacheable(client: Client) -> None:
    result = client.ask("tools/call", name="time_now", arguments={}, _meta=ENVELOPE)

    assert result["resultType"] == "complete"
    assert result["isError"] is False
    assert "ttlMs" not in result


def test_an_unknown_modern_version_is_told_the_known_ones(client: Client) -> None:
    meta = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}

    error = client.ask("server/discover", _meta=meta)

    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


# Errors.

VERSION_ONLY = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
VERSION_IS_A_NUMBER = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": 2026}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        pytest.param(b"this is not JSON", -32700, id="not JSON"),
        pytest.param(b"\xff\xfe\xfd", -32700, id="not text"),
        pytest.param(b"[" * 100_000, -32700, id="too deep"),
        pytest.param(b"[]", -32600, id="empty batch"),
        pytest.param(b"1", -32600, id="not an object"),
        pytest.param({"id": 1, "method": "ping"}, -32600, id="no jsonrpc"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "method": 7}, -32600, id="no method"),
        pytest.param(request(True, "ping"), -32600, id="id of a wrong type"),
        pytest.param(request(None, "ping"), -32600, id="null id"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602, id="params"),
        pytest.param(request(1, "resources/list"), -32601, id="unknown method"),
        pytest.param(request(1, "ping", _meta=ENVELOPE), -32601, id="ping in the modern era"),
        pytest.param(request(1, "initialize"), -32602, id="handshake without a version"),
        pytest.param(request(1, "server/discover"), -32602, id="discovery without an envelope"),
        pytest.param(request(1, "tools/list", _meta=VERSION_ONLY), -32602, id="half an envelope"),
        pytest.param(request(1, "tools/list", _meta=VERSION_IS_A_NUMBER), -32602, id="version a number"),
        pytest.param(request(1, "tools/list", cursor="2"), -32602, id="unknown cursor"),
        pytest.param(request(1, "tools/call", name="rm"), -32602, id="unknown tool"),
        pytest.param(request(1, "tools/call", name=["rm"]), -32602, id="tool name of a wrong type"),
        pytest.param(request(1, "tools/call", name="time_now", arguments=[]), -32602, id="arguments"),
    ],
)
def test_a_bad_message_gets_its_code_and_costs_nothing_else(
    client: Client, message: object, code: int
) -> None:
    client.send(message)

    error = client.receive()["error"]

    assert error["code"] == code
    assert error["message"].startswith("cannot ")
    assert client.ask("ping") == {}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"   ", id="blank line"),
        pytest.param({"jsonrpc": "2.0", "id": 9, "result": {}}, id="response"),
        pytest.param({"jsonrpc": "2.0", "method": "notifications/initialized"}, id="notification"),
        pytest.param({"jsonrpc": "2.0", "method": "tools/call", "params": 1}, id="unreadable notification"),
        pytest.param({"jsonrpc": "2.0", "method": "notifications/cancelled"}, id="cancels nothing"),
    ],
)
def test_what_must_not_be_answered_is_not(client: Client, message: object) -> None:
    client.send(message)

    assert client.ask("ping") == {}


def test_a_batch_is_answered_as_one(client: Client) -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    client.send([request(1, "ping"), notification, 7, request("two", "ping")])

    first, refused, second = client.receive()

    assert (first["id"], second["id"]) == (1, "two")
    assert refused["error"]["code"] == -32600


# Time: waiting, cancelling, ending.


def test_progress_grows_to_its_total_before_the_answer(client: Client) -> None:
    client.send(wait_call(1, 0.01, progressToken="t"))

    progress, answer = client.receive(), client.receive()

    assert progress["method"] == "notifications/progress"
    assert progress["params"] == {"progressToken": "t", "progress": 0.01, "total": 0.01}
    assert answer["id"] == 1


def test_a_busy_tool_delays_nobody(client: Client) -> None:
    client.send(wait_call(1, 60))

    assert client.call("text_diff", before="a", after="a")["isError"] is False
    assert client.ask("ping") == {}


def test_a_cancelled_call_ends_without_an_answer_and_makes_room(client: Client) -> None:
    client.send(*(wait_call(number, 60) for number in range(64)))
    client.send(request("one too many", "tools/call", name="text_diff", arguments={}))
    assert client.receive()["error"]["code"] == -32000

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    client.send(*(cancelled | {"params": {"requestId": number}} for number in range(64)))
    result = call_when_there_is_room(client)

    assert text_of(result) == "waited 0 s"


def call_when_there_is_room(client: Client) -> Json:
    """A cancelled thread needs a moment to end; each refusal is a round trip, so this is no busy loop."""
    for _ in range(10_000):
        result: Json = client.call("wait_seconds", seconds=0)
        if "code" not in result:
            return result
    pytest.fail("the cancelled calls never made room")


def test_end_of_input_ends_the_server_at_once_though_a_call_waits(client: Client) -> None:
    client.send(wait_call(1, 60), request(2, "ping"))
    assert client.receive()["id"] == 2

    assert client.close() == 0
    assert client.stdout.read() == b""


def test_a_call_in_flight_at_the_end_of_input_is_still_answered(client: Client) -> None:
    client.send(request(1, "tools/call", name="text_diff", arguments={"before": "a", "after": "b"}))

    assert client.close() == 0
    assert json.loads(client.stdout.read())["id"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_at_once_though_a_call_waits(client: Client, number: int) -> None:
    client.send(wait_call(1, 60), request(2, "ping"))
    assert client.receive()["id"] == 2

    client.child.send_signal(number)

    assert client.child.wait(PATIENCE) == 0


def test_a_reader_that_left_costs_nothing_but_the_answer(client: Client) -> None:
    client.stdout.close()
    client.send(request(1, "ping"))

    assert client.close() == 0


def test_starting_loads_no_module_that_only_a_tool_needs() -> None:
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", "import sys, supervisor.demo.__main__; print(*sys.modules)"],
        cwd=Path(supervisor.__file__).parents[1],
        env={},
        capture_output=True,
        check=True,
        text=True,
        timeout=PATIENCE,
    ).stdout.split()

    assert not {"asyncio", "dataclasses", "difflib", "hashlib", "pathlib", "pydantic", "zoneinfo"} & {*loaded}
