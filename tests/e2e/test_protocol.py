"""JSON-RPC 2.0 to the letter, over the real socket."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Client, Daemon, Launcher, fake

PING = b'{"jsonrpc":"2.0","id":1,"method":"supervisor/ping"}'
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one_echo","arguments":{}}}'
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.fixture(scope="module")
def daemon(shared: Launcher) -> Daemon:
    return shared.start({"one": fake()})


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


def exchange(client: Client, *lines: bytes) -> list[Any]:
    """The answers to some lines, and proof that the connection is as good as before."""
    client.write(b"".join(line + b"\n" for line in lines))
    client.write(b'{"jsonrpc":"2.0","id":"last","method":"supervisor/ping"}\n')
    answers = []
    while (answer := client.receive()) != {"jsonrpc": "2.0", "id": "last", "result": {}}:
        answers.append(answer)
    return answers


def deep(levels: int) -> bytes:
    """A request whose text nests so deep; the envelope is the first level."""
    inner = b"[" * (levels - 1) + b"]" * (levels - 1)
    return b'{"jsonrpc":"2.0","id":1,"method":"supervisor/ping","params":%b}' % inner


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"not JSON",
        b'{"jsonrpc":"2.0","id":1,"method":"supervisor/ping"',
        b'{"jsonrpc":"2.0","id":NaN,"method":"supervisor/ping"}',
        b'[{"jsonrpc":"2.0","id":1,"method":"supervisor/ping"},',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":"\xc3","method":"supervisor/ping"}',
        b"\x00",
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda line: repr(line[:24]),
)
def test_what_cannot_be_parsed_costs_one_error_and_keeps_the_connection(client: Client, line: bytes) -> None:
    [answer] = exchange(client, line)

    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", None, -32700)
    assert answer["error"]["message"].startswith("cannot parse")


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b"1", None),
        (b'"text"', None),
        (b"null", None),
        (b"{}", None),
        (b'{"id":5,"method":"supervisor/ping"}', 5),
        (b'{"jsonrpc":"1.0","id":5,"method":"supervisor/ping"}', 5),
        (b'{"jsonrpc":2.0,"id":5,"method":"supervisor/ping"}', 5),
        (b'{"jsonrpc":"2.0","id":5}', 5),
        (b'{"jsonrpc":"2.0","id":"a","method":7}', "a"),
        (b'{"jsonrpc":"2.0","id":true,"method":"supervisor/ping"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"supervisor/ping"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"supervisor/ping"}', None),
        (b'{"jsonrpc":"2.0","id":5,"method":"supervisor/ping","params":7}', 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"supervisor/ping","params":null}', 5),
    ],
)
def test_what_is_json_but_no_request_is_invalid_under_its_own_id(
    client: Client, line: bytes, identity: object
) -> None:
    [answer] = exchange(client, line)

    assert (answer["id"], answer["error"]["code"]) == (identity, -32600)


@pytest.mark.parametrize(
    "identity",
    [b"0", b"-7", b"1.5", b"1e3", b'"text"', b'""', b'"\\u00e9"', b"null", b"1" * 30],
)
def test_an_id_comes_back_as_it_was_written(client: Client, identity: bytes) -> None:
    client.write(b'{"jsonrpc":"2.0","id":%b,"method":"supervisor/ping"}\n' % identity)

    assert client.line() == b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % identity


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"supervisor/ping"}',
        b'{"jsonrpc":"2.0","method":"no/such/method"}',
        b'{"jsonrpc":"2.0","method":"servers/get","params":{"server":"none"}}',
        b'{"jsonrpc":"2.0","method":"servers/get","params":{"server":7}}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"one_echo"}}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"none"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'[{"jsonrpc":"2.0","method":"supervisor/ping"},{"jsonrpc":"2.0","method":"no/such/method"}]',
        b"",
        b" \t\r",
    ],
)
def test_a_notification_is_never_answered_nor_an_empty_line(client: Client, line: bytes) -> None:
    assert exchange(client, line) == []


def test_a_batch_is_answered_as_one_batch_without_its_notifications(client: Client) -> None:
    call = b'{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"one_echo"}}'
    unknown = b'{"jsonrpc":"2.0","id":2,"method":"no/such/method"}'
    notification = b'{"jsonrpc":"2.0","method":"supervisor/ping"}'

    client.write(b"[%b]\n" % b",".join((PING, notification, call, b"7", unknown)))
    answers = client.receive()

    by_id = {answer["id"]: answer for answer in answers}
    assert len(answers) == 4
    assert by_id[1] == PONG
    assert by_id["c"]["result"]["content"][0]["text"] == "{}"
    assert (by_id[None]["error"]["code"], by_id[2]["error"]["code"]) == (-32600, -32601)


@pytest.mark.parametrize(
    ("line", "codes"), [(b"[]", -32600), (b"[1,2]", [-32600, -32600]), (b"[[]]", [-32600])]
)
def test_a_batch_without_requests_is_invalid(client: Client, line: bytes, codes: int | list[int]) -> None:
    [answer] = exchange(client, line)

    if isinstance(codes, int):
        assert answer["error"]["code"] == codes
    else:
        assert [each["error"]["code"] for each in answer] == codes


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("servers/get", b"{}", "`server`"),
        ("servers/get", b'{"server":7}', "$.server"),
        ("tools/get", b"{}", "`name`"),
        ("tools/list", b'{"since":"now"}', "$.since"),
        ("tools/list", b'{"tools":[1]}', "$.tools[0]"),
        ("tools/list", b'{"all":1}', "$.all"),
        ("tools/call", b"{}", "`name`"),
        ("tools/call", b'{"name":"one_echo","timeout":"long"}', "$.timeout"),
        ("tools/call", b'{"name":"one_echo","timeout":0}', "$.timeout"),
        ("tools/call", b'{"name":"one_echo","timeout":-1.5}', "$.timeout"),
        ("tools/call", b'{"name":"one_echo","approved":"yes"}', "$.approved"),
        ("tools/call", b'{"name":"one_echo","arguments":[1]}', "arguments"),
        ("tools/call", b'{"name":"one_echo","_meta":1}', "_meta"),
        ("servers/get", b'["one"]', "object"),
    ],
)
def test_params_that_do_not_fit_are_refused_by_the_name_of_the_field(
    client: Client, method: str, params: bytes, field: str
) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
    [answer] = exchange(client, line)

    assert (answer["id"], answer["error"]["code"]) == (1, -32602)
    assert field in answer["error"]["message"]


def test_a_cancellation_with_an_id_is_answered(client: Client) -> None:
    cancel = b'{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{"requestId":99}}'

    assert exchange(client, cancel, b"[%b]" % cancel) == [PONG, [PONG]]


def test_half_a_character_does_not_cost_the_call(client: Client) -> None:
    client.write(CALL.replace(b'"arguments":{}', b'"arguments":{"text":"cut \\ud83d"}') + b"\n")

    assert json.loads(client.receive()["result"]["content"][0]["text"]) == {"text": "cut \ufffd"}


def test_a_number_of_any_length_is_read_over(client: Client) -> None:
    assert exchange(client, PING[:-1] + b',"params":{"id":%b}}' % (b"1" * 5000)) == [PONG]


def test_a_member_that_nobody_knows_is_ignored(client: Client) -> None:
    line = PING[:-1] + b',"params":{"future":1},"trace":[]}'

    assert exchange(client, line) == [PONG]


def test_nesting_to_the_limit_is_accepted(client: Client) -> None:
    [answer] = exchange(client, deep(100))

    assert answer["error"]["code"] == -32602


def test_what_nests_deeper_is_answered_under_its_id(client: Client) -> None:
    [answer] = exchange(client, deep(101))

    assert (answer["id"], answer["error"]["code"]) == (1, -32700)
    assert answer["error"]["message"] == "cannot parse the line: nested deeper than 100"


def test_brackets_inside_strings_do_not_nest(client: Client) -> None:
    text = "[" * 500

    assert json.loads(client.text("one_echo", text=text)) == {"text": text}


def test_requests_may_arrive_in_any_pieces(client: Client) -> None:
    for byte in PING + b"\r\n" + PING + b"\n":
        client.write(bytes([byte]))

    assert [client.receive(), client.receive()] == [PONG, PONG]


@pytest.mark.parametrize("line", [PING, CALL])
def test_half_a_line_at_the_end_is_no_request(client: Client, daemon: Daemon, line: bytes) -> None:
    client.write(line)
    client.socket.shutdown(socket.SHUT_WR)

    assert client.line() == b""
    assert daemon.client.result("supervisor/ping") == {}


def test_a_client_that_has_said_all_still_gets_its_answers(client: Client) -> None:
    client.ask("tools/call", name="one_sleep", arguments={"seconds": 0.05})
    client.ask("supervisor/ping")
    client.socket.shutdown(socket.SHUT_WR)

    answers = [client.receive(), client.receive()]

    assert {answer["id"] for answer in answers} == {1, 2}
    assert client.line() == b""


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2_000_000, 1)])
def test_a_client_that_has_said_all_gets_answers_that_came_together(
    client: Client, daemon: Daemon, sizes: tuple[int, ...]
) -> None:
    count = len(sizes) + 1
    for size in sizes:
        client.ask("tools/call", name="one_together", arguments={"count": count, "bytes": size})
    client.socket.shutdown(socket.SHUT_WR)
    for _ in range(2):  # turns of the loop in which it hears of that
        daemon.client.result("supervisor/ping")
    daemon.client.result("tools/call", name="one_together", arguments={"count": count})

    answers = [client.receive() for _ in sizes]

    assert [len(answer["result"]["content"][0]["text"]) for answer in answers] == list(sizes)
    assert client.line() == b""
