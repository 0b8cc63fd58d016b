"""Bytes become the same messages however they are cut, within bounds, and with work linear in the bytes."""

import sys
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from supervisor.core.framing import BadHeader, Framing, LengthFramer, LineFramer, TooLong, framed, framer

LARGE = 1024 * 1024
HEADERS = [
    b"Content-Length: %d\r\n\r\n",
    b"content-length:%d\n\n",
    b"CONTENT-LENGTH:  %d \r\nContent-Type: application/json\r\n\r\n",
    b"X: y\nContent-Length: %d\n\n",
    b"\r\nContent-Length: %d\n\r\n",
]
lines = st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")), max_size=12)
bodies = st.lists(st.tuples(st.sampled_from(HEADERS), st.binary(max_size=30)), max_size=8)


@st.composite
def chunked(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    """The stream in pieces, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=15)))
    return [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]


def fed(framing: Framing, chunks: list[bytes], *, limit: int = LARGE) -> list[bytes]:
    reader = framer(framing, limit)
    return [message for chunk in chunks for message in reader.feed(chunk)]


def bytewise(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


# Both framings.


@pytest.mark.parametrize("framing", ["newline", "content-length"])
@given(st.data(), lines)
def test_what_is_framed_comes_out_again_however_it_is_cut(
    framing: Framing, data: st.DataObject, messages: list[bytes]
) -> None:
    stream = b"".join(framed(framing, message) for message in messages)
    chunks = data.draw(chunked(stream))

    assert fed(framing, chunks) == messages


@pytest.mark.parametrize("framing", ["newline", "content-length"])
@pytest.mark.parametrize("cut", [bytewise, lambda stream: [stream]])
def test_a_message_as_long_as_the_limit_passes(framing: Framing, cut: Any) -> None:
    assert fed(framing, cut(framed(framing, b"12345678")), limit=8) == [b"12345678"]


@pytest.mark.parametrize("framing", ["newline", "content-length"])
@pytest.mark.parametrize("cut", [bytewise, lambda stream: [stream]])
def test_a_message_longer_than_the_limit_does_not(framing: Framing, cut: Any) -> None:
    with pytest.raises(TooLong, match="longer than 8 bytes"):
        fed(framing, cut(framed(framing, b"123456789")), limit=8)


class Metered(bytes):
    """Counts the bytes that are looked at or copied through it."""

    work: ClassVar[int] = 0

    def _count(self, result: Any, cost: int) -> Any:
        Metered.work += cost
        return result

    @override
    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return self._count(Metered(part), len(part))

    def __radd__(self, before: bytes) -> Any:
        return self._count(Metered(bytes(before) + bytes(self)), len(before) + len(self))

    @override
    def split(self, *arguments: Any) -> Any:
        return self._count(super().split(*arguments), len(self))


def work_of(framing: Framing, stream: bytes, size: int) -> tuple[int, int]:
    """How many messages came out, and what it cost to get them."""
    reader = framer(framing, 1024 * LARGE)
    Metered.work = 0
    found = sum(len(reader.feed(Metered(stream[at : at + size]))) for at in range(0, len(stream), size))
    return found, Metered.work


@pytest.mark.parametrize("framing", ["newline", "content-length"])
def test_a_message_of_fifty_megabytes_costs_a_few_times_its_bytes(framing: Framing) -> None:
    stream = framed(framing, b"x" * 50_000_000)
    found, work = work_of(framing, stream, 64 * 1024)

    assert found == 1
    assert work <= 3 * len(stream)


@pytest.mark.parametrize("framing", ["newline", "content-length"])
def test_twenty_thousand_small_messages_in_one_chunk_cost_a_few_times_their_bytes(
    framing: Framing,
) -> None:
    stream = framed(framing, b"{}") * 20_000
    found, work = work_of(framing, stream, len(stream))

    assert found == 20_000
    assert work <= 3 * len(stream)


# Lines.


@pytest.mark.parametrize(
    ("chunks", "messages", "rest"),
    [
        ([b"a\nb\n"], [b"a", b"b"], b""),
        ([b"a\nb"], [b"a"], b"b"),
        ([b"a", b"b", b"c\nd"], [b"abc"], b"d"),
        ([b"a", b"\n"], [b"a"], b""),
        ([b"\n\n"], [b"", b""], b""),
        ([b"a\r\n"], [b"a\r"], b""),
        ([b""], [], b""),
    ],
)
def test_a_line_ends_with_its_newline(chunks: list[bytes], messages: list[bytes], rest: bytes) -> None:
    reader = LineFramer(100)

    assert [line for chunk in chunks for line in reader.feed(chunk)] == messages
    assert reader.rest == rest


@pytest.mark.parametrize(
    "chunks",
    [
        [b"123456789"],
        [b"12345", b"6789"],
        [b"12345", b"6789\n"],
        [b"ok\n123456789\n"],
        [b"1234", b"5678\n123456789"],
    ],
)
def test_a_line_is_refused_as_soon_as_it_passes_the_limit(chunks: list[bytes]) -> None:
    reader = LineFramer(8)
    for chunk in chunks[:-1]:
        reader.feed(chunk)

    with pytest.raises(TooLong):
        reader.feed(chunks[-1])
    assert reader.rest == b""


@given(st.data(), lines)
def test_whether_a_line_is_too_long_does_not_depend_on_the_cuts(
    data: st.DataObject, messages: list[bytes]
) -> None:
    stream = b"\n".join(messages)
    chunks = data.draw(chunked(stream))
    longest = max(map(len, messages), default=0)

    if longest > 10:
        with pytest.raises(TooLong):
            fed("newline", chunks, limit=10)
    else:
        assert fed("newline", chunks, limit=10) == messages[:-1]


# Content-Length.


@given(st.data(), bodies)
def test_headers_are_understood_in_every_spelling_and_every_cut(
    data: st.DataObject, messages: list[tuple[bytes, bytes]]
) -> None:
    stream = b"".join(header % len(body) + body for header, body in messages)
    chunks = data.draw(chunked(stream))

    assert fed("content-length", chunks) == [body for _, body in messages]


@pytest.mark.parametrize("cut", [bytewise, lambda stream: [stream]])
def test_a_blank_line_in_a_body_is_no_end_of_its_header(cut: Any) -> None:
    stream = b"Content-Length: 8\n\n{\r\n\r\n  }"

    assert fed("content-length", cut(stream)) == [b"{\r\n\r\n  }"]


@pytest.mark.parametrize(
    ("stream", "rest"),
    [
        (b"Content-Len", b"Content-Len"),
        (b"Content-Length: 5\r\n\r", b"Content-Length: 5\r\n\r"),
        (b"Content-Length: 5\r\n\r\nab", b"ab"),
        (b"\r\n\r\n", b""),
    ],
)
def test_what_belongs_to_no_message_yet_is_kept(stream: bytes, rest: bytes) -> None:
    reader = LengthFramer(100)

    assert reader.feed(stream) == []
    assert reader.rest == rest


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: five\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length:\r\n\r\n",
        b"Content-Type: text/plain\r\n\r\n",
        b'{"jsonrpc":"2.0"}\n\n',
    ],
)
def test_a_header_without_a_length_is_an_error_that_shows_it(header: bytes) -> None:
    with pytest.raises(BadHeader, match="no Content-Length in the message header"):
        LengthFramer(100).feed(header)


@pytest.mark.parametrize("cut", [bytewise, lambda stream: [stream]])
@pytest.mark.parametrize(
    ("size", "good"), [(4096, True), (4097, False)], ids=["as long as allowed", "a byte longer"]
)
def test_a_header_is_bounded_however_it_is_cut(cut: Any, size: int, good: bool) -> None:
    ending = b"\r\nContent-Length: 1\r\n\r\n"
    stream = b"X: ".ljust(size - len(ending), b"x") + ending + b"{"

    if good:
        assert fed("content-length", cut(stream)) == [b"{"]
    else:
        with pytest.raises(BadHeader, match="within 4096 bytes"):
            fed("content-length", cut(stream))


@pytest.mark.parametrize("digits", [1000, 4000, 4400, 100_000])
def test_an_absurd_length_is_refused_and_never_computed_for_long(digits: int) -> None:
    with pytest.raises((TooLong, BadHeader)):
        LengthFramer(100).feed(b"Content-Length: %s\r\n\r\n" % (b"9" * digits))


def test_messages_before_one_that_is_too_long_are_not_lost() -> None:
    with pytest.raises(TooLong) as caught:
        LineFramer(8).feed(b"one\ntwo\n" + b"x" * 9 + b"\n")

    assert caught.value.before == [b"one", b"two"]


def test_messages_before_a_bad_header_are_not_lost() -> None:
    with pytest.raises(BadHeader) as caught:
        LengthFramer(8).feed(framed("content-length", b"one") + b"nonsense\n\n")

    assert caught.value.before == [b"one"]


def test_a_message_that_comes_in_crumbs_weighs_little_more_than_its_bytes() -> None:
    lines = LineFramer(1 << 20)

    for _ in range(100_000):
        lines.feed(b"ab")

    assert sys.getsizeof(lines.open) < 300_000
    assert lines.feed(b"\n") == [b"ab" * 100_000]


def test_a_large_message_is_handed_over_whole() -> None:
    lines = LineFramer(1 << 22)
    half = b"x" * (1 << 20)

    assert lines.feed(half) == []
    assert lines.feed(half + b"\nnext\n") == [half * 2, b"next"]
