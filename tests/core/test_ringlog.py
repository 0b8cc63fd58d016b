"""What is kept of what a server wrote, and what is kept from whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.ringlog import Line, Redactor, RingLog, redacted


def texts(ring: RingLog, count: int = 1000) -> list[str]:
    return [line.text for line in ring.tail(count)]


def test_lines_are_kept_with_the_time_at_which_they_were_complete() -> None:
    ring = RingLog()
    first = ring.feed(b"one\ntw", now=1.0)
    second = ring.feed(b"o\n", now=2.0)

    assert first == [Line(1.0, "one")]
    assert second == [Line(2.0, "two")]
    assert ring.tail(10) == (Line(1.0, "one"), Line(2.0, "two"))


@pytest.mark.parametrize(("count", "expected"), [(2, ["b", "c"]), (3, ["a", "b", "c"]), (0, []), (-1, [])])
def test_the_tail_is_the_last_lines_oldest_first(count: int, expected: list[str]) -> None:
    ring = RingLog()
    ring.feed(b"a\nb\nc\n", now=0.0)

    assert texts(ring, count) == expected


def test_what_has_no_newline_is_kept_when_nothing_more_will_come() -> None:
    ring = RingLog()
    ring.feed(b"last words", now=1.0)
    assert texts(ring) == []

    ring.flush(now=2.0)
    ring.flush(now=3.0)
    assert ring.tail(10) == (Line(2.0, "last words"),)


def test_a_line_from_elsewhere_is_redacted_and_not_counted_and_cuts_no_open_line() -> None:
    ring = RingLog(redact=Redactor(frozenset({"s3cret"})))
    ring.feed(b"begun, ", now=1.0)
    ring.add_line(b"on stdout: s3cret", now=2.0)
    ring.feed(b"ended\n", now=3.0)

    assert ring.tail(10) == (Line(2.0, "on stdout: ***"), Line(3.0, "begun, ended"))
    assert ring.total_bytes == len(b"begun, ended\n")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"caf\xc3\xa9\n", "café"),
        (b"windows\r\n", "windows"),
        (b"bad: \xff\n", "bad: \ufffd"),
        (b"\n", ""),
        (b"12345678\n", "12345678"),
        (b"123456789ab\n", "12345678 [3 characters cut]"),
    ],
)
def test_a_line_is_text_however_it_was_written(raw: bytes, text: str) -> None:
    ring = RingLog(max_line=8)
    ring.feed(raw, now=0.0)

    assert texts(ring) == [text]


def test_a_line_without_end_is_cut_and_does_not_grow() -> None:
    ring = RingLog(max_line=8)
    ring.feed(b"12345678", now=0.0)
    assert texts(ring) == []

    ring.feed(b"9", now=1.0)
    assert texts(ring) == ["12345678 [1 characters cut]"]


def test_the_oldest_lines_make_room() -> None:
    ring = RingLog(max_lines=3)
    ring.feed(b"a\nb\n", now=0.0)
    ring.feed(b"c\nd\n", now=1.0)

    assert texts(ring) == ["b", "c", "d"]


def test_a_flood_pushes_itself_out_and_is_counted() -> None:
    ring = RingLog(max_bytes=10)
    ring.feed(b"x" * 1000 + b"\nlast\n", now=0.0)

    assert texts(ring) == ["xxxx", "last"]
    assert ring.total_bytes == 1006


@given(st.lists(st.binary(max_size=200)))
def test_no_writing_makes_it_grow(chunks: list[bytes]) -> None:
    ring = RingLog(max_lines=5, max_bytes=64, max_line=16)
    for chunk in chunks:
        assert len(ring.feed(chunk, now=0.0)) <= 5
        assert sum(map(len, texts(ring))) <= 64

    assert len(texts(ring)) <= 5
    assert ring.total_bytes == sum(map(len, chunks))


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), st.data())
def test_however_lines_arrive_they_are_the_same(text: str, data: st.DataObject) -> None:
    raw = f"{text}\nnext\n".encode()
    cut = data.draw(st.integers(0, len(raw)))
    ring = RingLog()
    ring.feed(raw[:cut], now=0.0)
    ring.feed(raw[cut:], now=0.0)

    assert texts(ring) == [text, "next"]


# Secrets.

SECRETS = frozenset({"hunter2-long", "hunter2", "abc", "-----BEGIN-----\nMIIEvQ\n-----END-----"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the key is hunter2", "the key is ***"),
        ("hunter2hunter2", "******"),
        ("hunter2-long", "***"),
        ("abc is too short to protect", "abc is too short to protect"),
        ("-----BEGIN-----\nMIIEvQ\n-----END-----", "***"),
        ("one line of it: MIIEvQ", "one line of it: ***"),
        ("nothing here", "nothing here"),
    ],
)
def test_secrets_are_replaced_wherever_they_stand(text: str, shown: str) -> None:
    assert Redactor(SECRETS)(text) == shown


def test_a_cut_does_not_leave_half_a_secret() -> None:
    ring = RingLog(redact=Redactor(frozenset({"correct-horse"})), max_line=12)
    ring.feed(b"token correct-horse and more\n", now=0.0)

    assert texts(ring) == ["token *** an [6 characters cut]"]


def test_a_secret_of_many_lines_is_hidden_though_it_arrives_line_by_line() -> None:
    ring = RingLog(redact=Redactor(SECRETS))
    ring.feed(b"-----BEGIN-----\nMIIEvQ\n-----END-----\n", now=0.0)

    assert texts(ring) == ["***", "***", "***"]


def test_what_becomes_a_secret_later_is_blotted_out_of_what_is_kept() -> None:
    secrets: set[str] = set()

    def redact(text: str) -> str:
        return Redactor(frozenset(secrets))(text)

    ring = RingLog(redact=redact)
    ring.feed(b"token=hunter2hunter2\n", now=1.0)
    secrets.add("hunter2hunter2")

    ring.blot()

    assert ring.tail(5) == (Line(1.0, "token=***"),)


@pytest.mark.parametrize(
    ("chunk", "kept"),
    [
        (b"one\ntwo\nthree\n", ["[12 bytes left out: too much at once]", "three"]),
        (b"a line without an end" * 2, ["[40 bytes left out: too much at once]", "an end"]),
        (b"fits\n", ["openfits"]),
    ],
)
def test_of_a_flood_only_the_end_is_kept_and_the_rest_is_said_to_be_left_out(
    chunk: bytes, kept: list[str]
) -> None:
    ring = RingLog()
    ring.feed(b"open", now=1.0)

    ring.feed(chunk, now=2.0, most=6)
    ring.flush(now=3.0)

    assert ring.total_bytes == 4 + len(chunk)
    assert [line.text for line in ring.tail(9)] == kept


def test_every_string_in_a_value_is_redacted_and_nothing_else_changes() -> None:
    redact = Redactor(frozenset({"s3cret"}))

    assert redacted({"a s3cret": ["s3cret", 1, None, {"b": 2.5}], "c": True}, redact) == {
        "a ***": ["***", 1, None, {"b": 2.5}],
        "c": True,
    }
