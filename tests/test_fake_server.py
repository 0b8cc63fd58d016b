"""The fake server keeps the protocol of both eras, and its tools do what they say."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_servers.driver import META, MODERN, Start, fakes


@pytest.fixture
def start() -> Iterator[Start]:
    with fakes() as starting:
        yield starting


# Eras.


@pytest.mark.parametrize(
    ("era", "method", "outcome"),
    [
        ("both", "server/discover", "result"),
        ("both", "initialize", "result"),
        ("legacy", "server/discover", -32601),
        ("legacy", "initialize", "result"),
        ("modern", "server/discover", "result"),
        ("modern", "initialize", -32022),
        ("modern", "ping", -32601),
        ("rmcp", "initialize", "result"),
        ("mute", "initialize", "result"),
    ],
)
def test_each_era_answers_the_first_request_its_own_way(
    start: Start, era: str, method: str, outcome: str | int
) -> None:
    answer = start("--era", era).request(method, protocolVersion="2025-11-25", **MODERN)

    assert outcome == answer.get("error", {}).get("code", "result")


def test_an_rmcp_server_exits_on_the_probe(start: Start) -> None:
    fake = start("--era", "rmcp")

    fake.ask("server/discover", **MODERN)

    assert fake.wait() == 2


def test_a_mute_server_ignores_the_probe_and_answers_what_follows(start: Start) -> None:
    fake = start("--era", "mute")
    fake.ask("server/discover", **MODERN)

    answer = fake.request("initialize", protocolVersion="2025-06-18")

    assert answer["result"]["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize(
    ("options", "offered", "answered"),
    [
        ((), "2024-11-05", "2024-11-05"),
        ((), "1999-01-01", "2025-11-25"),
        (("--version", "1999-01-01"), "2025-11-25", "1999-01-01"),
    ],
)
def test_initialize_answers_a_version(
    start: Start, options: tuple[str, ...], offered: str, answered: str
) -> None:
    result = start(*options).result("initialize", protocolVersion=offered)

    assert result["protocolVersion"] == answered


def test_a_modern_server_names_the_versions_it_speaks(start: Start) -> None:
    error = start("--era", "modern").request("initialize", protocolVersion="2025-11-25")["error"]

    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


def test_a_modern_result_is_complete_and_says_how_long_it_keeps(start: Start) -> None:
    result = start("--tools", "0").result("tools/list", **MODERN)

    assert result == {
        "tools": [],
        "ttlMs": 0,
        "cacheScope": "private",
        "resultType": "complete",
        "_meta": {META + "serverInfo": {"name": "fake", "version": "1"}},
    }


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, -32600),
        ({"_meta": {META + "protocolVersion": "2026-07-28"}}, -32602),
        ({"_meta": {META + "protocolVersion": "2099-01-01"}}, -32022),
    ],
)
def test_a_strict_server_refuses_requests_of_no_era(start: Start, params: dict[str, Any], code: int) -> None:
    answer = start("--strict").request("tools/list", **params)

    assert answer["error"]["code"] == code


def test_a_strict_server_serves_after_either_handshake(start: Start) -> None:
    fake = start("--strict", "--tools", "1")
    assert fake.result("tools/list", **MODERN)["tools"]
    fake.handshake()

    assert fake.result("tools/list")["tools"]


# Lists.


def test_every_tool_is_listed_by_default(start: Start) -> None:
    tools = {tool["name"]: tool for tool in start().result("tools/list")["tools"]}

    assert tools["echo"]["annotations"] == {"readOnlyHint": True}
    assert tools["crash"]["annotations"] == {"readOnlyHint": False, "destructiveHint": True}
    assert "annotations" not in tools["noise"]


def test_a_number_of_tools_comes_in_pages_with_a_bad_one_among_them(start: Start) -> None:
    fake = start("--tools", "3", "--page-size", "3", "--bad-tool")

    first = fake.result("tools/list")
    second = fake.result("tools/list", cursor=first["nextCursor"])

    assert [tool["name"] for tool in first["tools"]] == ["echo", 7, "echo_2"]
    assert [tool["name"] for tool in second["tools"]] == ["echo_3"]
    assert "nextCursor" not in second


def test_definitions_from_a_file_are_listed_byte_for_byte(start: Start, tmp_path: Path) -> None:
    definition = '{"name": "précis", "x":1.0, "x":1e400,  "inputSchema":{"type":"object"}}'
    path = tmp_path / "tools.json"
    path.write_text(f"[\n  {definition},\n  {definition}\n]\n")
    fake = start("--tools-json", path)

    fake.ask("tools/list")

    assert f'"tools":[{definition},{definition}]'.encode() in fake.line()


def test_endless_pages_never_end(start: Start) -> None:
    fake = start("--tools", "1", "--endless-pages")

    first, second = fake.result("tools/list"), fake.result("tools/list", cursor="1")

    assert [page["nextCursor"] for page in (first, second)] == ["1", "2"]
    assert second["tools"][0]["name"] == "endless_1"


def test_the_same_cursor_comes_again(start: Start) -> None:
    assert start("--same-cursor").result("tools/list", cursor="again")["nextCursor"] == "again"


def test_an_unknown_cursor_is_an_error(start: Start) -> None:
    assert start("--page-size", "1").request("tools/list", cursor="x")["error"]["code"] == -32602


# Tools.


def test_echo_answers_its_arguments_byte_for_byte(start: Start) -> None:
    fake = start()
    arguments = '{"a": 1.0,"a":1000000000000000000000000000000 , "b":"\\u00e9é"}'

    fake.write(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":%b}}\n'
        % arguments.encode()
    )

    assert fake.receive()["result"]["content"][0]["text"] == arguments


def test_raw_answers_exactly_the_result_it_was_given(start: Start) -> None:
    fake = start()

    fake.ask("tools/call", name="raw", arguments={"result": {"content": [], "unheard": 1.0}})

    assert fake.line() == b'{"jsonrpc":"2.0","id":1,"result":{"content": [], "unheard": 1.0}}'


def test_a_sleeping_call_blocks_nobody_and_can_be_cancelled(start: Start) -> None:
    def sleep(seconds: float) -> dict[str, Any]:
        return {"method": "tools/call", "params": {"name": "sleep", "arguments": {"seconds": seconds}}}

    cancel = {"method": "notifications/cancelled", "params": {"requestId": "cancelled"}}
    ping = {"id": "ping", "method": "ping"}
    messages = ({"id": "slow", **sleep(0.1)}, {"id": "cancelled", **sleep(0.01)}, cancel, ping)
    fake = start()

    # In one write, so that no timer can fire between them.
    fake.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    assert [fake.receive()["id"] for _ in range(2)] == ["ping", "slow"]


def test_a_held_call_blocks_nobody_and_ends_when_the_file_is_there(start: Start, tmp_path: Path) -> None:
    fake, gate = start(), tmp_path / "gate"
    fake.ask("tools/call", name="hold", arguments={"file": str(gate)})
    assert fake.request("ping")["result"] == {}

    gate.touch()

    assert fake.receive()["result"]["content"][0]["text"] == "held"


@pytest.mark.parametrize(("arguments", "status"), [({"code": 7}, 7), ({"signal": "SIGKILL"}, -9), ({}, 1)])
def test_crash_dies_as_it_is_told(start: Start, arguments: dict[str, Any], status: int) -> None:
    fake = start()

    fake.ask("tools/call", name="crash", arguments=arguments)

    assert fake.wait() == status


def test_a_signal_that_does_not_kill_is_survived(start: Start) -> None:
    assert start().call("crash", signal=int(signal.SIGWINCH)) == "survived 28"


def test_exit_later_answers_first(start: Start) -> None:
    fake = start()

    assert fake.call("exit_later", code=4) == "soon"
    assert fake.wait() == 4


def test_big_answers_a_text_of_that_size(start: Start) -> None:
    assert start().call("big", bytes=3_000_000) == "x" * 3_000_000


def test_counter_counts_calls(start: Start) -> None:
    fake = start()
    fake.call("echo")

    assert fake.call("counter") == "2"


def test_errors_come_in_three_kinds(start: Start) -> None:
    fake = start()

    assert fake.result("tools/call", name="error")["isError"] is True
    assert fake.request("tools/call", name="rpc_error")["error"]["data"] == {"hint": "none"}
    assert fake.request("tools/call", name="no such tool")["error"]["code"] == -32602


def test_progress_is_reported_with_the_token_of_the_request(start: Start) -> None:
    fake = start()
    fake.ask("tools/call", name="progress", arguments={"steps": 2}, _meta={"progressToken": "t"})

    reports = [fake.receive()["params"] for _ in range(2)]

    assert reports == [{"progressToken": "t", "progress": step, "total": 2} for step in (1, 2)]
    assert fake.receive()["id"] == 1


def test_it_describes_its_process(start: Start) -> None:
    fake = start()

    assert json.loads(fake.call("environ")) == {"CANARY": "yes"}
    assert fake.call("pid") == str(fake.process.pid)
    assert fake.call("cwd") == str(Path.cwd())
    assert sorted(json.loads(fake.call("fds"))) == ["0", "1", "2"]


def test_changed_tools_are_announced_to_a_legacy_session(start: Start) -> None:
    fake = start("--tools", "1")
    fake.handshake()
    fake.ask("tools/call", name="change_tools")

    assert fake.receive()["method"] == "notifications/tools/list_changed"
    assert fake.receive()["id"] == 2
    assert [tool["name"] for tool in fake.result("tools/list")["tools"]] == ["echo", "extra_1"]


def test_changed_tools_are_announced_to_a_subscription_until_it_ends(start: Start) -> None:
    fake = start("--era", "modern")
    wanted = {"toolsListChanged": True, "promptsListChanged": False}
    fake.send({"id": "s", "method": "subscriptions/listen", "params": {"notifications": wanted, **MODERN}})
    stamp = {META + "subscriptionId": "s"}

    acknowledged = fake.receive()
    fake.ask("tools/call", name="change_tools", **MODERN)
    changed, _ = fake.receive(), fake.receive()
    fake.ask("tools/call", name="end_listen", **MODERN)
    ended = fake.receive()

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"] == {"notifications": {"toolsListChanged": True}, "_meta": stamp}
    assert changed["params"] == {"_meta": stamp}
    assert (ended["id"], ended["result"]["_meta"]) == ("s", stamp)


def test_ask_answers_what_the_client_answered(start: Start) -> None:
    fake = start()
    fake.ask("tools/call", name="ask", arguments={"method": "roots/list", "params": {}})

    question = fake.receive()
    fake.send({"id": question["id"], "result": {"roots": []}})

    assert question["method"] == "roots/list"
    assert json.loads(fake.receive()["result"]["content"][0]["text"]) == {"roots": []}


def test_noise_and_notifications_come_before_the_answer(start: Start) -> None:
    fake = start()
    fake.ask("tools/call", name="noise", arguments={"lines": 2})
    fake.ask("tools/call", name="notify", arguments={"count": 1})

    assert [fake.line() for _ in range(2)] == [b"this is not JSON"] * 2
    assert fake.receive()["id"] == 1
    assert fake.receive()["method"] == "notifications/message"


def test_stderr_gets_what_was_asked_for(start: Start) -> None:
    fake = start("--stderr", "hello", "--stderr-flood", "100")
    fake.call("stderr", text="more\n", bytes=3)
    fake.end_input()
    assert fake.process.stderr is not None

    written = fake.process.stderr.read()

    assert written == b"hello\n" + b"." * 63 + b"\n" + b"." * 36 + b"more\n..."
