"""JSON-RPC 2.0 to the letter where a client speaks, and lenient where a server does."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jsonrpc import (
    NO_RAW,
    NULL,
    TOO_DEEP,
    Fault,
    Invalid,
    Message,
    Request,
    error_line,
    fault_line,
    notification_line,
    read_fault,
    read_message,
    read_request,
    request_line,
    result_head,
    result_line,
)
from supervisor.errors import INVALID_REQUEST, PARSE_ERROR

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
payloads = (st.lists(json_values, max_size=4) | st.dictionaries(st.text(), json_values, max_size=4)).map(
    lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
)


def with_params(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":%s}' % params


def one(line: bytes, **options: Any) -> Request | Invalid:
    found = read_request(line, **options)
    assert not isinstance(found, list)
    return found


# Requests.


def test_a_request_has_method_params_and_id() -> None:
    found = one(b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"a": 1}}')

    assert isinstance(found, Request)
    assert (found.method, bytes(found.params), found.id) == ("tools/list", b'{"a": 1}', b"7")


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"m"}',
        b'  {"method": "m", "jsonrpc": "2.0"}\r',
        b'{"jsonrpc":"2.0","method":"m","unknown":{"id":5}}',
    ],
)
def test_a_request_without_an_id_is_a_notification(line: bytes) -> None:
    assert one(line) == Request("m", NO_RAW, None)


@pytest.mark.parametrize(
    "identity",
    [b"0", b"-1", b"1.0", b"1e2", b"1" + b"0" * 30, b'""', b'"a"', b'"\\u00e9"', '"é"'.encode(), b"null"],
)
def test_an_id_is_echoed_exactly(identity: bytes) -> None:
    good = one(b'{"jsonrpc":"2.0","id":%s,"method":"m"}' % identity)
    bad_method = one(b'{"jsonrpc":"2.0","id":%s,"method":5}' % identity)
    bad_version = one(b'{"jsonrpc":"1.0","id":%s,"method":"m"}' % identity)

    assert [good.id, bad_method.id, bad_version.id] == [identity] * 3


@pytest.mark.parametrize("identity", [b"true", b"false", b"[1]", b'{"a":1}'])
@pytest.mark.parametrize("method", [b'"m"', b"5"])
def test_an_id_of_another_type_is_refused_under_no_id(identity: bytes, method: bytes) -> None:
    found = one(b'{"jsonrpc":"2.0","id":%s,"method":%s}' % (identity, method))

    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (INVALID_REQUEST, NULL)


@pytest.mark.parametrize(
    ("line", "sentence", "identity"),
    [
        (b'{"id":1,"method":"m"}', 'cannot accept a request without "jsonrpc": "2.0"', b"1"),
        (b'{"jsonrpc":"1.0","method":"m"}', 'cannot accept a request without "jsonrpc": "2.0"', NULL),
        (b'{"jsonrpc":2.0,"id":1,"method":"m"}', "jsonrpc and method must be strings", b"1"),
        (b'{"jsonrpc":"2.0","id":1}', "without a method", b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', "without a method", b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":["m"]}', "jsonrpc and method must be strings", b"1"),
        (b'{"jsonrpc":"2.0","method":5}', "jsonrpc and method must be strings", NULL),
        (with_params(b"5"), "params that are neither an object nor an array", b"1"),
        (with_params(b"null"), "params that are neither an object nor an array", b"1"),
        (with_params(b'"x"'), "params that are neither an object nor an array", b"1"),
        (b"5", "not an object", NULL),
        (b'"hello"', "not an object", NULL),
        (b"null", "not an object", NULL),
        (b"[]", "an empty batch", NULL),
    ],
)
def test_json_that_is_no_request_is_invalid(line: bytes, sentence: str, identity: bytes) -> None:
    found = one(line)

    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (INVALID_REQUEST, identity)
    assert found.message.startswith("cannot ")
    assert sentence in found.message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"hello",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"m"',
        b'{"jsonrpc":"2.0","id":1,"method":"m"} {}',
        b"[1,",
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}',
        *(
            with_params(b'{"a":%s}' % value)
            for value in (
                b"NaN",
                b"Infinity",
                b"-Infinity",
                b"01",
                b"1.",
                b".5",
                b"+1",
                b"tru",
                b"'x'",
                b'"\\q"',
                b'"\\u12"',
                b'"\t"',
                b'"\x00"',
                b"[1,]",
                b'{"a":1,}',
                b'"\xff"',
                b'"\xed\xa0\x80"',
                b'"\\ud83"',
            )
        ),
    ],
)
def test_what_is_not_json_is_a_parse_error_under_no_id(line: bytes) -> None:
    found = one(line)

    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (PARSE_ERROR, NULL)
    assert found.message.startswith("cannot parse ")


@pytest.mark.parametrize(
    "text", [b"\\ud83d\\ude00", b"\\uD83D\\uDE00", b"\\\\ud800", b"\\\\\\\\ude00", b'\\"', b"\\u0000"]
)
def test_an_escape_that_only_looks_wrong_is_fine(text: bytes) -> None:
    assert isinstance(one(with_params(b'{"a":"%s"}' % text)), Request)


@given(payloads)
def test_params_survive_byte_for_byte(params: bytes) -> None:
    found = one(with_params(params))

    assert isinstance(found, Request)
    assert bytes(found.params) == params


@pytest.mark.parametrize("params", [b"[1.0, 1E5, 1" + b"0" * 30 + b"]", b'{"a":1,"a":2}', b"[ ]", b"{ }"])
def test_params_are_not_tidied_up(params: bytes) -> None:
    found = one(with_params(params))

    assert isinstance(found, Request)
    assert bytes(found.params) == params


# Keys that stand twice.


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":[]}',
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","\\u0070arams":{},"params":{}}',
    ],
)
def test_an_envelope_in_which_a_key_stands_twice_is_refused(line: bytes) -> None:
    found = one(line)

    assert isinstance(found, Invalid)
    assert found.code == INVALID_REQUEST
    assert found.message == "cannot accept an envelope in which a key stands twice"


@pytest.mark.parametrize(
    "line",
    [
        with_params(b'{"id":1,"method":2,"params":3,"jsonrpc":4}'),
        with_params(b'{"id":1,"id":2}'),
        with_params(b'["\\"id\\"", "\\u0069d"]'),
        b'{"jsonrpc":"2.0","id":"id","method":"m","params":{"id":1}}',
        b'{"jsonrpc":"2.0","x":1,"x":2,"id":1,"method":"m","params":{"id":1}}',
    ],
)
def test_only_the_keys_of_the_envelope_count(line: bytes) -> None:
    assert isinstance(one(line), Request)


# Batches.


def test_a_batch_is_read_part_by_part() -> None:
    found = read_request(
        b' [{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"jsonrpc":"2.0","method":"b"}, [], {"id":2}]'
    )

    assert isinstance(found, list)
    assert [(type(part), part.id) for part in found] == [
        (Request, b"1"),
        (Invalid, NULL),
        (Request, None),
        (Invalid, NULL),
        (Invalid, b"2"),
    ]


# Nesting.


def test_an_answer_with_half_a_character_in_it_is_read_with_a_sign_in_its_place() -> None:
    message = read_message(rb'{"id":7,"result":"cut \ud83d"}')

    assert message is not None
    assert (message.id, bytes(message.result)) == (7, rb'"cut \ufffd"')


@pytest.mark.parametrize("line", [rb'{"id":7,"result":"cut \ud83d"', rb'"\ud83d', rb"[\ud83d"])
def test_what_is_broken_beside_half_a_character_is_noise(line: bytes) -> None:
    assert read_message(line) is None


@pytest.mark.parametrize("template", [b'{"id":7,"result":%s}', b'{"result":%s,"id":7}'])
def test_an_answer_that_nests_too_deep_is_an_error_for_who_waits(template: bytes) -> None:
    message = read_message(template % (b"[" * 5000 + b"]" * 5000))

    assert message is not None
    assert message.id == 7
    assert message.error is TOO_DEEP


def test_what_nests_too_deep_and_answers_nobody_is_noise() -> None:
    assert read_message(b"[" * 5000) is None


@pytest.mark.parametrize(("inner", "good"), [(99, True), (100, False), (100_000, False)])
def test_nesting_is_bounded(inner: int, good: bool) -> None:
    found = one(with_params(b"[" * inner + b"]" * inner), max_depth=100)

    if good:
        assert isinstance(found, Request)
    else:
        assert isinstance(found, Invalid)
        assert (found.code, found.message) == (PARSE_ERROR, "cannot parse the line: nested deeper than 100")


@pytest.mark.parametrize(
    "params",
    [
        pytest.param(b'["%s"]' % (b"[" * 500), id="in a string"),
        pytest.param(b'["\\"%s"]' % (b"[{" * 500), id="after an escaped quote"),
        pytest.param(b"[%s]" % b",".join([b"[]"] * 500), id="side by side"),
        pytest.param(b"[[],%s]" % (b"[" * 98 + b"]" * 98), id="as deep as allowed, and one beside"),
    ],
)
def test_many_brackets_are_not_deep_brackets(params: bytes) -> None:
    assert isinstance(one(with_params(params)), Request)


def test_a_string_without_end_is_looked_at_once() -> None:
    # With a backtracking pattern this line costs hours.
    line = b"[" * 101 + b'"' + b'\\"' * 500_000

    assert one(line) == Invalid(PARSE_ERROR, "cannot parse the line: nested deeper than 100")


@given(st.binary(max_size=200) | payloads)
def test_no_bytes_make_the_reader_fail(line: bytes) -> None:
    found = read_request(line)

    assert isinstance(found, Request | Invalid | list)


# What servers write.


def test_an_answer_of_a_server_keeps_its_result_byte_for_byte() -> None:
    found = read_message(b'{"jsonrpc":"2.0","id":3,"result":{"n": 1.0, "n":1E3}}')

    assert found is not None
    assert found.id == 3
    assert bytes(found.result) == b'{"n": 1.0, "n":1E3}'
    assert found.method is None


@given(payloads)
def test_any_result_survives_the_way_through_us(payload: bytes) -> None:
    came = read_message(result_line(b"12", payload))
    assert came is not None
    gone = read_message(result_line(b'"theirs"', came.result))

    assert gone is not None
    assert (gone.id, bytes(gone.result)) == ("theirs", payload)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Server started",
        b"[]",
        b"5",
        b'{"id":true}',
        b'{"id":[1]}',
        b'{"method":5}',
        b"{",
        b'{"result":%s}' % (b"[" * 200_000),
    ],
)
def test_what_is_no_message_is_noise(line: bytes) -> None:
    assert read_message(line) is None


@pytest.mark.parametrize(
    ("raw", "code", "message", "data"),
    [
        (b'{"code":-32601,"message":"no","data":[1]}', -32601, "no", b"[1]"),
        (b'{"message":"no code"}', 0, "no code", b""),
        (b"{}", 0, "", b""),
        (b'"oops"', 0, "an error that cannot be read", b""),
        (b'{"code":"x"}', 0, "an error that cannot be read", b""),
        (b"[" * 200_000, 0, "an error that cannot be read", b""),
    ],
)
def test_an_error_is_read_as_far_as_it_can_be(raw: bytes, code: int, message: str, data: bytes) -> None:
    found = read_fault(raw)

    assert isinstance(found, Fault)
    assert (found.code, found.message, bytes(found.data)) == (code, message, data)


# Writers.


@pytest.mark.parametrize("payload", [b'{"a": 1.0}', msgspec.Raw(b'{"a": 1.0}')])
def test_writers_put_an_envelope_around_a_payload(payload: bytes | msgspec.Raw) -> None:
    assert request_line(5, "m", payload) == b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a": 1.0}}'
    assert result_line(b'"x"', payload) == b'{"jsonrpc":"2.0","id":"x","result":{"a": 1.0}}'
    assert fault_line(b"7", payload) == b'{"jsonrpc":"2.0","id":7,"error":{"a": 1.0}}'


def test_a_notification_has_no_id() -> None:
    line = notification_line("notifications/initialized", b"{}")

    assert line == b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}'
    assert read_message(line) == Message(method="notifications/initialized", params=msgspec.Raw(b"{}"))


@pytest.mark.parametrize("data", [None, {}, {"server": "demo"}])
def test_an_error_has_code_and_message_and_data_where_there_is_some(data: dict[str, str] | None) -> None:
    written = json.loads(error_line(NULL, -32600, 'cannot "quote"', data))

    expected = {"code": -32600, "message": 'cannot "quote"'} | ({"data": data} if data else {})
    assert written == {"jsonrpc": "2.0", "id": None, "error": expected}


def test_a_result_that_is_sent_in_parts_makes_the_same_line() -> None:
    assert result_head(b'"a"') + b"{}" + b"}" == result_line(b'"a"', b"{}")
