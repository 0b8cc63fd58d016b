"""Events come out whole, whatever the chunks, and never grow past the bound."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.framing import TooLong
from supervisor.core.sse import EventParser, ServerEvent

LIMIT = 1000
FIELDS = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"event: x", b"id: 1", b"retry: 5", b": note", b"odd", b""]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(FIELDS, LINE_ENDS)).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def parse(*chunks: bytes) -> list[ServerEvent]:
    parser = EventParser(LIMIT)
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"data: a\n\n", [ServerEvent(b"a")], id="one"),
        pytest.param(
            b"data: a\r\n\r\ndata: b\r\r", [ServerEvent(b"a"), ServerEvent(b"b")], id="other line ends"
        ),
        pytest.param(b"data: a\ndata: b\n\n", [ServerEvent(b"a\nb")], id="two lines"),
        pytest.param(b"data:  a: b\n\n", [ServerEvent(b" a: b")], id="one blank is not data"),
        pytest.param(b"event: ping\ndata: a\n\n", [ServerEvent(b"a", "ping")], id="a kind"),
        pytest.param(b"event: ping\n\ndata: a\n\n", [ServerEvent(b"a")], id="a kind without data is void"),
        pytest.param(b": note\n\nodd: x\n\nid: 1\ndata\n\n", [], id="nothing to say"),
        pytest.param(
            b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [ServerEvent(b"a")], id="a first mark"
        ),
        pytest.param(b"data: a\n", [], id="unfinished"),
    ],
)
def test_a_stream_is_read_by_the_standard(stream: bytes, events: list[ServerEvent]) -> None:
    assert parse(stream) == events


def test_a_line_end_that_comes_in_two_chunks_is_one_line_end() -> None:
    assert parse(b"data: a\r", b"\n\r", b"", b"\n") == [ServerEvent(b"a")]


@given(STREAMS, st.lists(st.integers(0, 200)).map(sorted))
def test_where_a_stream_is_cut_makes_no_difference(stream: bytes, cuts: list[int]) -> None:
    chunks = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]

    assert parse(*chunks) == parse(stream)


@pytest.mark.parametrize(
    ("stream", "last_id", "retry"),
    [
        (b"id: e1\nretry: 1500\ndata: a\n\n", "e1", 1.5),
        (b"id: e1\n\nid\n\n", "", None),
        (b"id: a\0b\nretry: soon\nretry: 99999999999999999999\n\n", "", None),
        (b"id: " + b"x" * 990 + b"y" * 40 + b"\n\n", "", None),
    ],
)
def test_where_to_resume_and_when_is_remembered(stream: bytes, last_id: str, retry: float | None) -> None:
    parser = EventParser(2 * LIMIT)

    list(parser.feed(stream))

    assert (parser.last_id, parser.retry) == (last_id, retry)


def test_a_broken_stream_leaves_no_half_event_but_its_id() -> None:
    parser = EventParser(LIMIT)
    list(parser.feed(b"id: e1\nevent: x\ndata: lost\ndata: ha"))

    parser.restart()

    assert list(parser.feed(b"data: whole\n\n")) == [ServerEvent(b"whole")]
    assert parser.last_id == "e1"


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"data: " + b"x" * LIMIT + b"\n"], id="one line"),
        pytest.param([b"data: " + b"x" * 600 + b"\n"] * 2, id="two lines"),
        pytest.param([b"x" * 600, b"x" * 600], id="a line without an end"),
        pytest.param([b": " + b"x" * 600, b"x" * 600], id="a comment without an end"),
        pytest.param([b"event: " + b"x" * 1100 + b"\n"], id="a kind"),
    ],
)
def test_an_event_past_the_bound_ends_the_stream_before_it_ends(chunks: list[bytes]) -> None:
    with pytest.raises(TooLong):
        parse(*chunks)


def test_many_events_within_the_bound_pass_however_long_the_stream() -> None:
    assert len(parse(*[b"data: " + b"x" * 900 + b"\n\n"] * 50)) == 50
