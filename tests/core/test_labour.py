"""What would take too long to be read is told by its weight, and whom it was for by what is kept of it."""

import json

import pytest

from supervisor.core.framing import Framing, framed, framer
from supervisor.core.jsonrpc import NULL, TOO_MUCH, Invalid, read_message, read_request
from supervisor.core.labour import (
    PATIENCE_WITH_CLIENTS,
    PATIENCE_WITH_SERVERS,
    Excerpt,
    Scales,
    weighed,
)
from supervisor.errors import TooLarge

MEBI = 1024 * 1024
HEAVY = [
    pytest.param(b"1,", id="values"),
    pytest.param(b"[[]],", id="arrays"),
    pytest.param(b'{"a":{}},', id="objects"),
    pytest.param(rb"\n", id="escapes"),
    pytest.param(rb"\u0041\"", id="quotes"),
    pytest.param(b" ", id="blanks"),
    pytest.param(b"\t", id="tabulators"),
]
LIGHT = [
    pytest.param(b"x", id="letters"),
    pytest.param("é".encode(), id="other letters"),
    pytest.param(b"A prose sentence, as they are in most texts, with some commas in it. ", id="prose"),
    pytest.param(rb"a line of a log as they are, some 70 letters long, and with its end\n", id="lines"),
    pytest.param(b"1234567890", id="digits"),
]


def of(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def answer(body: bytes, template: bytes = b'{"id":7,"result":"%s"}') -> bytes:
    return template % body


@pytest.mark.parametrize("unit", HEAVY)
def test_a_large_message_full_of_what_takes_long_is_not_read(unit: bytes) -> None:
    assert isinstance(weighed(answer(of(unit, 64 * MEBI)), PATIENCE_WITH_SERVERS), Excerpt)


@pytest.mark.parametrize("unit", LIGHT)
def test_a_large_message_of_text_is_read(unit: bytes) -> None:
    message = answer(of(unit, 40 * MEBI))

    assert weighed(message, PATIENCE_WITH_SERVERS) is message


@pytest.mark.parametrize("unit", HEAVY)
def test_the_first_mebibyte_is_free(unit: bytes) -> None:
    message = of(unit, MEBI)

    assert weighed(message, 0) is message


@pytest.mark.parametrize("unit", HEAVY)
def test_a_request_of_the_usual_limit_may_be_too_much(unit: bytes) -> None:
    half, whole = of(unit, MEBI), of(unit * 3, 4 * MEBI)

    assert weighed(half, PATIENCE_WITH_CLIENTS) is half
    assert isinstance(weighed(whole * 2, PATIENCE_WITH_CLIENTS), Excerpt)


@pytest.mark.parametrize("framing", ["newline", "content-length"])
@pytest.mark.parametrize("size", [1000, 65536, MEBI + 1])
def test_a_framer_gives_an_excerpt_of_what_is_too_much_and_all_of_the_next(
    framing: Framing, size: int
) -> None:
    heavy, light = answer(of(b"1,", 3 * MEBI)), answer(of(b"x", 3 * MEBI))
    stream = b"".join(framed(framing, each) for each in (heavy, light, heavy, b"{}"))
    reader = framer(framing, 4 * MEBI, 1_000_000)

    chunks = (stream[at : at + size] for at in range(0, len(stream), size))
    messages = [message for chunk in chunks for message in reader.feed(chunk)]

    assert [isinstance(message, Excerpt) for message in messages] == [True, False, True, False]
    assert messages[1] == light


def test_what_was_too_long_weighs_nothing_on_the_next() -> None:
    scales = Scales(1_000_000)
    scales.add(of(b"1,", 3 * MEBI))
    scales.taken(b"given up")
    scales.add(of(b"x", 3 * MEBI))

    assert scales.taken(b"the next") == b"the next"


def excerpt(message: bytes) -> bytes:
    found = weighed(message, 0)
    assert isinstance(found, Excerpt)
    return found


MUCH = of(b"1,", 2 * MEBI) + b"1"
NUMBERED = [
    b'{"jsonrpc":"2.0","id":7,"result":[%s]}',
    b'{ "jsonrpc": "2.0", "id": 7, "result": [%s] }',
    b'{"id":7,"result":[%s]}',
    b'{"result":[%s],"jsonrpc":"2.0","id":7}',
    b'{"result":[%s],"id":7,"jsonrpc":"2.0"}',
    b'{"result":{"id":8,"x":[%s],"id":8},"id":7}\r',
]
NOT_NUMBERED = [
    b'{"result":{"id":8,"x":[%s]}}',
    b'{"result":{"x":[%s],"id":8}}',
    b'{"result":[%s],"id":null}',
    b'{"result":[%s],"id":1.5}',
    b"[%s]",
]


@pytest.mark.parametrize("template", NUMBERED)
def test_whoever_waits_for_it_is_told(template: bytes) -> None:
    message = read_message(excerpt(template % MUCH))

    assert message is not None
    assert message.id == 7
    assert message.error is TOO_MUCH


@pytest.mark.parametrize("template", [*NOT_NUMBERED, b'{"id":"7","result":[%s]}'])
def test_nobody_is_told_of_what_may_be_for_nobody(template: bytes) -> None:
    assert read_message(excerpt(template % MUCH)) is None


@pytest.mark.parametrize("template", [*NUMBERED, *NOT_NUMBERED])
def test_a_request_is_answered_under_its_id_if_that_is_plain(template: bytes) -> None:
    found = read_request(excerpt(template % MUCH))

    assert isinstance(found, Invalid)
    assert found.code == TooLarge.code
    assert found.id == (b"7" if template in NUMBERED else NULL)
    assert "smaller" in found.message


def test_a_request_may_have_words_for_its_id() -> None:
    found = read_request(excerpt(b'{"jsonrpc":"2.0","id":"a b","method":"m","params":[%s]}' % MUCH))

    assert isinstance(found, Invalid)
    assert found.id == b'"a b"'


def test_an_excerpt_is_ascii_and_no_json() -> None:
    found = excerpt('{"id":7,"é":['.encode() + MUCH + '],"é":7}'.encode())

    assert found.isascii()
    with pytest.raises(json.JSONDecodeError):
        json.loads(found)
