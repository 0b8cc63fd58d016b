"""The methods of the control socket, each with the shape of its answer."""

import json

import pytest

from supervisor import __version__
from tests.e2e.support import Client, Daemon, Launcher, fake, until

SERVER = {
    *("name", "state", "phase", "reason", "since", "transport", "protocol", "pid", "run", "restarts"),
    *("tools", "pending", "source", "shadows", "exit", "nextTry"),
}
DETAIL = {
    *("command", "args", "cwd", "environment", "serverInfo", "calls", "noise", "timeline", "ends"),
    *("stderr", "leftOut"),
}


@pytest.fixture(scope="module")
def daemon(shared: Launcher) -> Daemon:
    return shared.start(
        {
            "zebra": fake("--tools", 2, cwd="/"),
            "apple": fake("--bad-tool", env={"COLOUR": "green-as-grass"}),
            "broken": {"command": "/does/not/exist"},
            "off": fake(enabled=False),
        }
    )


@pytest.fixture
def client(daemon: Daemon) -> Client:
    return daemon.client


def test_ping_answers_with_nothing(client: Client) -> None:
    assert client.result("supervisor/ping") == {}


def test_info_says_who_answers(daemon: Daemon, shared: Launcher) -> None:
    info = daemon.client.result("supervisor/info")

    assert (info["version"], info["pid"]) == (__version__, daemon.process.pid)
    assert info["uptime"] > 0
    assert info["socket"] == str(daemon.socket)
    assert info["configFiles"] == [{"path": str(shared.config), "found": True}]
    assert (info["servers"]["total"], info["servers"]["connected"]) == (4, 2)
    assert info["generation"] == daemon.client.result("tools/list")["generation"]
    assert info["protocol"] == ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def test_servers_are_listed_by_name_with_every_field(client: Client) -> None:
    servers = client.result("servers/list")["servers"]

    assert [server["name"] for server in servers] == ["apple", "broken", "off", "zebra"]
    assert [server["state"] for server in servers] == ["connected", "unavailable", "disabled", "connected"]
    assert all(set(server) >= SERVER for server in servers)


def test_a_server_that_works_is_described_as_it_is(client: Client, shared: Launcher) -> None:
    zebra = client.server("zebra")

    assert set(zebra) >= SERVER | DETAIL
    assert (zebra["phase"], zebra["run"], zebra["restarts"], zebra["tools"]) == ("ready", 1, 0, 2)
    assert (zebra["transport"], zebra["protocol"]) == ("stdio", "2026-07-28")
    assert zebra["serverInfo"] == {"name": "fake", "version": "1"}
    assert (zebra["source"], zebra["shadows"], zebra["exit"]) == (str(shared.config), [], None)
    assert zebra["cwd"] == "/"
    assert [word for word, _ in zebra["timeline"]] == ["spawned", "heard", "greeted", "listed"]


def test_a_server_that_failed_is_described_by_its_end(client: Client) -> None:
    broken = client.server("broken")

    assert (broken["pid"], broken["protocol"], broken["tools"]) == (None, None, 0)
    assert broken["exit"]["reason"] == broken["reason"] == "cannot find /does/not/exist: no such file"
    assert broken["ends"] == [broken["exit"]]


def test_the_environment_of_a_server_is_shown_by_names_only(client: Client) -> None:
    assert "COLOUR" in client.server("apple")["environment"]
    assert "green-as-grass" not in json.dumps(client.server("apple"))


def test_tools_are_listed_by_public_name_with_their_definitions_unaltered(client: Client) -> None:
    listing = client.result("tools/list")
    names = [tool["name"] for tool in listing["tools"]]
    zebra = next(tool for tool in listing["tools"] if tool["name"] == "zebra_echo")

    assert names == sorted(names)
    assert (listing["complete"], listing["pending"]) == (True, [])
    assert zebra["annotations"] == {"readOnlyHint": True}
    assert zebra["inputSchema"] == {"type": "object"}
    assert zebra["_meta"]["server"] == "zebra"


def test_the_same_question_has_the_same_bytes_for_an_answer(client: Client) -> None:
    lines = []
    for _ in range(2):
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
        lines.append(client.line())

    assert lines[0] == lines[1]


def test_tools_can_be_listed_for_one_server_or_by_pattern(client: Client) -> None:
    of_zebra = client.result("tools/list", server="zebra")["tools"]
    chosen = client.result("tools/list", tools=["*_echo", "!apple_*"])["tools"]

    assert [tool["name"] for tool in of_zebra] == ["zebra_echo", "zebra_echo_2"]
    assert [tool["name"] for tool in chosen] == ["zebra_echo"]


def test_what_was_left_out_is_shown_on_request_with_the_reason(client: Client) -> None:
    left_out = client.result("tools/list", all=True)["leftOut"]

    crash = next(entry for entry in left_out if entry["tool"] == "crash")
    assert (crash["server"], crash["name"], crash["cause"]) == ("apple", "apple_crash", "policy")
    assert "readOnlyHint: false" in crash["reason"]
    assert "leftOut" not in client.result("tools/list")


def test_a_list_since_now_holds_nothing(client: Client) -> None:
    now = client.result("tools/list")["generation"]

    difference = client.result("tools/list", since=now)

    assert (difference["tools"], difference["removed"], difference["generation"]) == ([], [], now)


def test_a_server_that_announces_new_tools_is_listed_anew(launcher: Launcher) -> None:
    client = launcher.start({"one": fake()}).client
    before = client.result("tools/list")["generation"]

    client.text("one_change_tools", add=1)
    until(lambda: "one_extra_1" in client.tools())

    difference = client.result("tools/list", since=before)
    assert [tool["name"] for tool in difference["tools"]] == ["one_extra_1"]
    assert (difference["removed"], difference["since"]) == ([], before)
    assert difference["generation"] > before


def test_one_tool_can_be_got_with_its_verdict(client: Client) -> None:
    found = client.result("tools/get", name="zebra_echo")

    assert found["tool"]["name"] == "zebra_echo"
    assert (found["server"], found["approval"]) == ("zebra", "auto")
    assert found["reason"] == "it says readOnlyHint: true"


def test_a_call_answers_with_the_result_as_the_server_wrote_it(client: Client) -> None:
    result = '{"content":[],"big":1000000000000000000000000000000,"one":1.0,"twice":1,"twice":2}'
    call = f'{{"name":"apple_raw","arguments":{{"result":{result}}}}}'

    client.write(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{call}}}\n'.encode())

    assert client.line().decode() == f'{{"jsonrpc":"2.0","id":7,"result":{result}}}\n'


def test_a_flattened_call_answers_in_plain_text(client: Client) -> None:
    answer = client.result("tools/call", name="apple_error", flatten=True)

    assert answer == {"error": True, "output": "this tool always fails"}


def test_progress_is_told_under_the_clients_own_token(client: Client) -> None:
    meta = {"progressToken": "mine"}
    client.ask("tools/call", name="apple_progress", arguments={"steps": 2}, _meta=meta)

    told = [client.receive() for _ in range(2)]

    assert [message["params"]["progressToken"] for message in told] == ["mine", "mine"]
    assert [message["params"]["progress"] for message in told] == [1, 2]
    assert client.receive()["result"]["content"][0]["text"] == "2 steps"


@pytest.mark.parametrize(
    ("method", "params", "code", "sentence"),
    [
        ("servers/get", {"server": "none"}, -32001, "cannot find server 'none'"),
        ("tools/list", {"server": "none"}, -32001, "cannot find server 'none'"),
        ("tools/get", {"name": "none"}, -32002, "cannot find tool 'none'"),
        ("tools/get", {"name": "apple_crash"}, -32008, "cannot call apple_crash"),
        ("tools/call", {"name": "none"}, -32002, "cannot find tool 'none'"),
        ("tools/sing", {}, -32601, "cannot find the method 'tools/sing'"),
    ],
)
def test_what_is_not_there_is_named(
    client: Client, method: str, params: dict[str, str], code: int, sentence: str
) -> None:
    error = client.error(method, **params)

    assert error["code"] == code
    assert error["message"].startswith(sentence)
