"""A wire brings every answer to whoever asked, once, and everything else to its owner."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.framing import Framing
from supervisor.core.jsonrpc import Message
from supervisor.core.phases import End
from supervisor.errors import SupervisorError
from supervisor.runtime.wakefulness import Wakefulness
from supervisor.runtime.wire import NotSent, PipeWire

LIMIT = 10_000
DEEP = 4000
GONE = End("exited with code 3", code=3)


class Asker:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def answered(self, result: msgspec.Raw) -> None:
        self.told.append(("answered", msgspec.json.decode(result)))

    def refused(self, error: msgspec.Raw) -> None:
        self.told.append(("refused", msgspec.json.decode(error)["code"]))

    def unusable(self, problem: SupervisorError) -> None:
        self.told.append(("unusable", str(problem)))

    def lost(self, end: End) -> None:
        self.told.append(("lost", end))

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:
        self.told.append(("not sent", detail))


class Server:
    """The other end of a wire, in memory."""

    def __init__(self, framing: Framing = "newline") -> None:
        self.written: list[bytes] = []
        self.takes = True
        self.untaken = 0
        self.closed = False
        self.messages: list[Message] = []
        self.noise: list[bytes] = []
        self.broken: list[str] = []
        self.wire = PipeWire(
            framing=framing,
            limit=LIMIT,
            on_message=self.messages.append,
            on_noise=self.noise.append,
            on_broken=self.broken.append,
        )
        self.wire.attach(self, Wakefulness(lambda _: None))

    def write(self, line: bytes) -> bool:
        if self.takes:
            self.written.append(line)
        return self.takes

    def says(self, *messages: Any) -> None:
        self.wire.feed(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


@pytest.fixture
def server() -> Server:
    return Server()


def ask(server: Server, count: int) -> list[Asker]:
    askers = [Asker() for _ in range(count)]
    for asker in askers:
        server.wire.request("tools/call", b"{}", asker)
    return askers


# Asking and answering.


def test_a_request_has_a_number_of_its_own(server: Server) -> None:
    first = server.wire.request("tools/list", b'{"a":1.0}', Asker())
    second = server.wire.request("tools/list", b"{}", Asker())

    assert (first, second) == (1, 2)
    assert server.written[0] == b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":1.0}}\n'


@given(st.permutations(range(6)))
def test_answers_reach_who_asked_in_whatever_order_they_come(order: list[int]) -> None:
    server = Server()
    askers = ask(server, 6)

    server.says(*({"id": place + 1, "result": place} for place in order))

    assert [asker.told for asker in askers] == [[("answered", place)] for place in range(6)]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40), st.sampled_from(["newline", "content-length"]))
def test_it_does_not_matter_where_a_stream_is_cut(cuts: list[int], framing: Framing) -> None:
    server = Server(framing)
    askers = ask(server, 5)
    bodies = [b'{"id":%d,"result":"%s"}' % (place + 1, b"x" * 40 * place) for place in range(5)]
    framed = {
        "newline": b"".join(body + b"\n" for body in bodies),
        "content-length": b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies),
    }
    stream = framed[framing]

    for size in [*cuts, len(stream)]:
        server.wire.feed(stream[:size])
        stream = stream[size:]

    assert [asker.told for asker in askers] == [[("answered", "x" * 40 * place)] for place in range(5)]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"id":1,"result":null}', ("answered", None)),
        (b'{"id":1,"error":{"code":-5,"message":"no"}}', ("refused", -5)),
        (b'{"id":1,"result":{},"error":{"code":-5}}', ("answered", {})),
        (b'{"id":1}', ("unusable", "the server answered with neither result nor error")),
        (b'{"id":1,"error":null}', ("unusable", "the server answered with neither result nor error")),
        (
            b'{"id":1,"error":"boom"}',
            ("unusable", 'the server answered with an error that is not one: "boom"'),
        ),
        (
            b'{"id":1,"result":%s}' % (b"[" * DEEP + b"]" * DEEP),
            ("unusable", "the server's answer nests too deep to be read"),
        ),
        (rb'{"id":1,"result":{"text":"\ud83d"}}', ("answered", {"text": "\ufffd"})),
        (
            b'{"id":1,"result":{"text":"\xff"}}',
            ("unusable", "the server answered with bytes that are not UTF-8"),
        ),
    ],
)
def test_an_answer_is_told_as_what_it_is(server: Server, answer: bytes, told: tuple[str, Any]) -> None:
    (asker,) = ask(server, 1)

    server.wire.feed(answer + b"\n")

    assert asker.told == [told]


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":2,"result":{}}',
        b'{"id":"\xff","result":{}}',
        b'{"id":"\xff","method":"ping"}',
        b'{"method":"\xff"}',
        b'{"method":"notifications/progress","params":{"message":"\xff"}}',
        b'{"id":"1","result":{}}',
        b'{"id":1.0,"result":{}}',
        b'{"id":true,"result":{}}',
        b'{"id":null,"result":{}}',
        b'{"result":{}}',
        b"[]",
        b"hello",
        b"\xff\xfe",
    ],
)
def test_what_answers_nobody_is_noise(server: Server, line: bytes) -> None:
    (asker,) = ask(server, 1)

    server.wire.feed(line + b"\n")

    assert server.noise == [line]
    assert asker.told == []


def test_a_bug_of_ours_costs_the_server_that_showed_it_and_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(_message: Message) -> None:
        raise ZeroDivisionError

    wire = PipeWire(
        framing="newline",
        limit=LIMIT,
        on_message=stumble,
        on_noise=server.noise.append,
        on_broken=server.broken.append,
    )

    wire.feed(b'{"method":"x"}\n')

    assert server.broken == ["wrote what cannot be understood (ZeroDivisionError)"]
    assert "ZeroDivisionError" in caplog.text


def test_a_server_that_is_gone_is_sent_nothing_more_but_may_have_answered(server: Server) -> None:
    (asker,) = ask(server, 1)

    server.wire.close(GONE)

    with pytest.raises(NotSent, match="it exited with code 3"):
        ask(server, 1)
    assert not server.wire.alive
    server.says({"id": 1, "result": 1})
    server.wire.lose(GONE)
    assert asker.told == [("answered", 1)]


def test_a_second_answer_is_noise(server: Server) -> None:
    (asker,) = ask(server, 1)

    server.says({"id": 1, "result": 1}, {"id": 1, "result": 2})

    assert asker.told == [("answered", 1)]
    assert len(server.noise) == 1


def test_a_forgotten_request_is_told_nothing(server: Server) -> None:
    (asker,) = ask(server, 1)

    forgotten = [server.wire.forget(1), server.wire.forget(1)]
    server.says({"id": 1, "result": 1})
    server.wire.lose(GONE)

    assert forgotten == [True, False]
    assert asker.told == []


def test_the_late_answer_to_a_forgotten_request_is_no_noise(server: Server) -> None:
    ask(server, 1)
    server.wire.forget(1)

    server.says({"id": 1, "result": "secret"})

    assert server.noise == []


def test_what_a_server_sends_of_its_own_accord_goes_to_the_owner(server: Server) -> None:
    (asker,) = ask(server, 1)

    server.says({"id": 1, "method": "ping"}, {"method": "notifications/progress", "params": {}})

    assert [message.method for message in server.messages] == ["ping", "notifications/progress"]
    assert asker.told == []


def test_empty_lines_mean_nothing(server: Server) -> None:
    server.wire.feed(b"\n\n")

    assert (server.noise, server.messages) == ([], [])


def test_with_a_length_before_it_a_message_may_span_lines() -> None:
    server = Server("content-length")
    (asker,) = ask(server, 1)
    body = b'{"id":1,\r\n"result":\n{"a":\n1}}'

    server.wire.feed(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    assert asker.told == [("answered", {"a": 1})]


# Notifications and answers of ours.


def test_what_we_send_unasked_is_framed(server: Server) -> None:
    server.wire.notify("notifications/cancelled", b'{"requestId":1}')
    server.wire.answer(b'{"id":1,"result":{}}')

    assert server.written == [
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
        b'{"id":1,"result":{}}\n',
    ]


# Loss.


def test_everyone_who_waits_is_told_of_a_loss_once(server: Server) -> None:
    askers = ask(server, 3)
    server.says({"id": 2, "result": 0})

    server.wire.lose(GONE)
    server.wire.lose(End("something else"))
    server.says({"id": 1, "result": 0})

    assert [asker.told for asker in askers] == [[("lost", GONE)], [("answered", 0)], [("lost", GONE)]]


def test_who_asks_when_told_of_a_loss_is_refused_and_not_told_twice(server: Server) -> None:
    class Persistent(Asker):
        def lost(self, end: End) -> None:
            super().lost(end)
            with pytest.raises(NotSent):
                server.wire.request("tools/call", b"{}", self)

    asker = Persistent()
    server.wire.request("tools/call", b"{}", asker)

    server.wire.lose(GONE)

    assert asker.told == [("lost", GONE)]


def test_a_lost_wire_takes_nothing_and_says_why(server: Server) -> None:
    server.wire.lose(GONE)

    with pytest.raises(NotSent, match="it exited with code 3"):
        server.wire.request("tools/call", b"{}", Asker())
    server.wire.notify("notifications/cancelled", b"{}")
    server.wire.answer(b"{}")

    assert not server.wire.alive
    assert server.written == []


def test_a_server_that_takes_nothing_is_sent_nothing(server: Server) -> None:
    server.takes = False
    asker = Asker()

    with pytest.raises(NotSent, match="does not read its standard input"):
        server.wire.request("tools/call", b"{}", asker)
    server.wire.notify("notifications/cancelled", b"{}")
    server.wire.answer(b"{}")
    server.wire.lose(GONE)

    assert server.written == []
    assert asker.told == []


def test_a_server_that_leaves_its_answers_unread_gets_no_more_of_them_and_is_called_all_the_same(
    server: Server,
) -> None:
    server.untaken = 256 * 1024
    server.wire.answer(b'{"id":1,"result":{}}')
    server.untaken += 1
    server.wire.answer(b'{"id":2,"result":{}}')
    server.wire.request("tools/call", b"{}", Asker())

    assert [json.loads(line).get("method", "answer") for line in server.written] == ["answer", "tools/call"]


def test_a_server_that_closed_its_input_is_sent_nothing(server: Server) -> None:
    server.closed, server.takes = True, False

    with pytest.raises(NotSent, match="its standard input is closed"):
        server.wire.request("tools/call", b"{}", Asker())
    server.wire.notify("notifications/cancelled", b"{}")

    assert server.written == []


def test_a_wire_that_leads_nowhere_takes_nothing() -> None:
    wire = PipeWire(
        framing="newline",
        limit=LIMIT,
        on_message=lambda _: None,
        on_noise=lambda _: None,
        on_broken=lambda _: None,
    )

    with pytest.raises(NotSent):
        wire.request("tools/call", b"{}", Asker())
    wire.notify("notifications/cancelled", b"{}")
    wire.answer(b"{}")


# Streams that cannot be followed.


def test_a_message_that_is_too_long_breaks_the_wire_before_it_ends(server: Server) -> None:
    ask(server, 1)

    server.wire.feed(b'{"id":1,"result":"' + b"x" * LIMIT)

    assert len(server.broken) == 1
    assert "longer than 10000 bytes" in server.broken[0]
    assert "maxLineBytes" in server.broken[0]


@pytest.mark.parametrize("stream", [b"Content-Type: x\r\n\r\n{}", b"{}" * 3000])
def test_a_header_without_a_length_breaks_the_wire(stream: bytes) -> None:
    server = Server("content-length")

    server.wire.feed(stream)

    assert len(server.broken) == 1
    assert "message header" in server.broken[0]
