"""Requests at the edges of what is allowed, and past them."""

from typing import Any

import pytest

from supervisor.core.jsonrpc import NULL, Invalid, Request, read_request
from supervisor.errors import INVALID_REQUEST, PARSE_ERROR


def with_params(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":%s}' % params


def one(line: bytes, **options: Any) -> Request | Invalid:
    found = read_request(line, **options)
    assert not isinstance(found, list)
    return found


# Batches.


def batch(count: int) -> bytes:
    return b"[%s]" % b",".join([b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2]}'] * count)


@pytest.mark.parametrize("count", [1, 9, 10])
def test_a_batch_may_be_as_long_as_allowed(count: int) -> None:
    found = read_request(batch(count), max_batch=10)

    assert isinstance(found, list)
    assert [bytes(part.params) for part in found if isinstance(part, Request)] == [b"[1,2]"] * count


@pytest.mark.parametrize("line", [batch(11), b"[1,1,1,1,1,1,1,1,1,1,1 and so on"])
def test_a_longer_batch_is_refused_before_it_is_read_to_its_end(line: bytes) -> None:
    found = one(line, max_batch=10)

    assert found == Invalid(INVALID_REQUEST, "cannot accept a batch of more than 10 requests")


def test_a_long_batch_that_is_no_json_is_a_parse_error() -> None:
    found = one(batch(5)[:-1] + b",,]", max_batch=10)

    assert isinstance(found, Invalid)
    assert found.code == PARSE_ERROR


# Halves of characters, and long numbers.


@pytest.mark.parametrize(
    ("text", "served"),
    [
        (b"\\ud83d", b"\\ufffd"),
        (b"\\uDE00!", b"\\ufffd!"),
        (b"\\ud83d\\ud83d\\ude00", b"\\ufffd\\ud83d\\ude00"),
        (b"\\\\ud83d\\ude00", b"\\\\ud83d\\ufffd"),
    ],
)
def test_half_a_character_costs_itself_only(text: bytes, served: bytes) -> None:
    found = one(with_params(b'{"a":"%s"}' % text))
    in_batch = read_request(b"[%s]" % with_params(b'{"a":"%s"}' % text))

    assert isinstance(in_batch, list)
    for each in (found, *in_batch):
        assert isinstance(each, Request)
        assert bytes(each.params) == b'{"a":"%s"}' % served


@pytest.mark.parametrize("template", [b'{"id":%s}', b'{"n":%s}', b"[%s]"])
def test_a_number_of_thousands_of_digits_is_a_value_like_any_other(template: bytes) -> None:
    params = template % (b"1" * 5000)

    found = one(with_params(params))

    assert isinstance(found, Request)
    assert bytes(found.params) == params


def test_such_a_number_does_not_hide_what_is_wrong_with_the_rest() -> None:
    found = one(b'{"jsonrpc":"2.0","id":1,"method":5,"params":[%s]}' % (b"1" * 5000))

    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (INVALID_REQUEST, b"1")


# Nesting.


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b'{"id":7,"params":%s}', b"7"),
        (b'{"id":[7],"params":%s}', NULL),
        (b'{"params":%s}', NULL),
        (b'[{"id":7,"params":%s}]', NULL),
        (b'{"id":7,"params":%s', NULL),
    ],
)
def test_what_nests_too_deep_is_answered_under_its_id_if_it_has_one(line: bytes, identity: bytes) -> None:
    assert one(line % (b"[" * 101 + b"]" * 101)).id == identity
