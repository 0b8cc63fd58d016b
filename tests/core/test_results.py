"""Results: errors seen, sizes kept, text made plain."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.results import MAX_BLOCKS, RESERVE, cap, flatten, is_error, unreachable

DEEP = b"[" * 9_999 + b"]" * 9_999


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def image(size: int) -> dict[str, Any]:
    return {"type": "image", "data": "x" * size, "mimeType": "image/png"}


def result(*blocks: Any, **fields: Any) -> bytes:
    return json.dumps({"content": list(blocks), **fields}, separators=(",", ":")).encode()


def capped(raw: bytes, limit: int) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(cap(raw, limit)[0])
    return decoded


def texts(of: dict[str, Any]) -> list[str]:
    return [block["text"] for block in of["content"]]


# Errors.


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (result(text("x"), isError=True), True),
        (b'{ "isError" : true , "content":[]}', True),
        (result(text("x"), isError=False), False),
        (result(text("x")), False),
        (result(text('"isError":true')), False),
        (result(structuredContent={"isError": True}), False),
        (result(isError="true"), False),
        (b"[]", False),
        (b"", False),
        (b'{"content":' + DEEP + b',"isError":true}', False),
    ],
)
def test_a_result_is_an_error_only_if_it_says_so_itself(raw: bytes, expected: bool) -> None:
    assert is_error(msgspec.Raw(raw)) is expected


# Flattening.


@pytest.mark.parametrize(
    ("raw", "error", "output"),
    [
        (result(text("one"), text('two "lines"\nhere')), False, 'one\ntwo "lines"\nhere'),
        (result(text("bad"), isError=True), True, "bad"),
        (result(image(3)), False, '{"type":"image","data":"xxx","mimeType":"image/png"}'),
        (result({"type": "text", "text": 7}), False, '{"type":"text","text":7}'),
        (result("loose"), False, '"loose"'),
        (result(), False, "(no output)"),
        (result(text("")), False, "(no output)"),
        (result(structuredContent={"a": 1}), False, '{"a":1}'),
        (result(text("text"), structuredContent={"a": 1}), False, "text"),
        (b'{"resultType":"input_required"}', False, '{"resultType":"input_required"}'),
        (b'{"content":"x","isError":true}', True, '{"content":"x","isError":true}'),
        (b"\xff", False, "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_flattened_result_is_its_text_and_whether_it_failed(raw: bytes, error: bool, output: str) -> None:
    assert json.loads(flatten(raw)) == {"error": error, "output": output}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.booleans())
def test_flattened_text_is_what_decoding_and_joining_would_give(values: list[str], ascii_only: bool) -> None:
    raw = json.dumps({"content": [text(value) for value in values]}, ensure_ascii=ascii_only).encode()

    assert json.loads(flatten(raw))["output"] == ("\n".join(values) or "(no output)")


def test_blocks_beyond_count_are_left_out_of_flattened_text_and_that_is_said() -> None:
    one_block_and_its_comma = len(b'{"type":"text","text":"%b"},' % (b"x" * 50))

    lines = json.loads(flatten(result(*[text("x" * 50)] * (MAX_BLOCKS + 2_000))))["output"].split("\n")

    assert len(lines) == MAX_BLOCKS + 1
    assert lines[-1] == f"[{2_000 * one_block_and_its_comma} bytes left out]"


def test_a_server_that_cannot_be_asked_has_a_flattened_answer_too() -> None:
    assert json.loads(unreachable("exit code 1")) == {
        "error": True,
        "output": "MCP server unreachable: exit code 1",
    }


# Capping.


@pytest.mark.parametrize("raw", [result(text("x")), msgspec.Raw(result(text("x"))), b"not JSON"])
def test_a_result_that_fits_is_passed_on_as_the_same_object(raw: Any) -> None:
    same, left_out = cap(raw, 100)

    assert same is raw
    assert left_out == 0


def test_text_that_does_not_fit_is_cut_and_the_mark_says_how_much_is_missing() -> None:
    raw = result(text("x" * 10_000, annotations={"audience": ["user"]}), isError=True, _meta={"a": 1.0})

    cut, left_out = cap(raw, 4_000)

    decoded = json.loads(cut)
    kept = 10_000 - left_out
    assert texts(decoded) == ["x" * kept + f"\n[{left_out} bytes left out]"]
    assert decoded["content"][0]["annotations"] == {"audience": ["user"]}
    assert (decoded["isError"], decoded["_meta"]) == (True, {"a": 1.0})
    assert 4_000 - RESERVE - 100 < len(cut) <= 4_000


def test_a_capped_result_has_the_type_of_the_one_that_was_given() -> None:
    raw = result(text("x" * 10_000))

    assert cap(msgspec.Raw(raw), 4_000) == (msgspec.Raw(cap(raw, 4_000)[0]), cap(raw, 4_000)[1])


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (image(9_000), "image"),
        ({"type": "resource", "resource": {"text": "x" * 9_000}}, "resource"),
        ({"type": "made up \x1b[31m", "x": "x" * 9_000}, "block"),
        ({"type": "text", "text": ["x" * 9_000]}, "text"),
        (text("", _meta={"x": "x" * 9_000}), "text"),
        ("x" * 9_000, "block"),
    ],
)
def test_a_block_that_cannot_be_cut_gives_way_to_a_text_that_says_so(block: Any, kind: str) -> None:
    raw = result(text("before"), block, text("after"))
    size = len(json.dumps(block, separators=(",", ":")))

    decoded = capped(raw, 4_000)

    assert texts(decoded) == ["before", f"[{kind} left out: {size} bytes, over the limit of 4000]", "after"]
    assert cap(raw, 4_000)[1] == size


def test_one_huge_text_does_not_push_small_blocks_out() -> None:
    decoded = capped(result(text("x" * 9_000), text("summary"), image(40)), 4_000)

    assert [block["type"] for block in decoded["content"]] == ["text", "text", "image"]
    assert texts({"content": decoded["content"][1:2]}) == ["summary"]


def test_blocks_that_stay_whole_stay_byte_for_byte() -> None:
    whole = b'{"type":"text", "text":"a\\u00e9", "n":1.0, "n":1000000000000000000000000000000}'
    raw = b'{"content":[%b,{"type":"text","text":"%b"}]}' % (whole, b"x" * 9_000)

    assert whole in cap(raw, 4_000)[0]


def test_many_blocks_without_room_share_one_note() -> None:
    decoded = capped(result(*[image(2_000)] * 20), 1_000)

    assert len(decoded["content"]) == 6
    assert texts(decoded)[0] == "[image left out: 2049 bytes, over the limit of 1000]"
    assert texts(decoded)[-1] == "[15 more blocks left out: 30735 bytes, over the limit of 1000]"


def test_structured_content_over_the_limit_is_dropped_with_a_note() -> None:
    raw = result(text("short"), structuredContent={"rows": "x" * 9_000})

    decoded = capped(raw, 4_000)

    assert "structuredContent" not in decoded
    assert texts(decoded) == ["short", "[structuredContent left out: 9011 bytes, over the limit of 4000]"]


def test_small_structured_content_stays_beside_text_that_is_cut() -> None:
    decoded = capped(result(text("x" * 9_000), structuredContent={"count": 3}), 4_000)

    assert decoded["structuredContent"] == {"count": 3}


def test_structured_content_that_would_halve_the_text_gives_way_to_it() -> None:
    decoded = capped(result(text("x" * 2_500), structuredContent={"result": "x" * 2_500}), 4_000)

    assert texts(decoded)[0] == "x" * 2_500
    assert "structuredContent" not in decoded


def test_what_mcp_does_not_define_is_left_out_and_that_is_said() -> None:
    decoded = capped(result(text("short"), extra="x" * 9_000, resultType="complete"), 4_000)

    assert decoded["resultType"] == "complete"
    assert texts(decoded) == ["short", "[rest of the result left out: 9011 bytes, over the limit of 4000]"]


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b'{"content":"%b","isError":true}' % (b"x" * 5_000), {"isError": True}),
        (b'{"resultType":"input_required","requestState":"%b"}' % (b"x" * 5_000), {}),
        (b'["%b"]' % (b"x" * 5_000), {}),
        (b"x" * 5_000, {}),
        (b'{"content":' + DEEP + b"}", {}),
    ],
)
def test_a_result_without_a_content_list_gives_way_to_a_text_that_says_so(
    raw: bytes, kept: dict[str, Any]
) -> None:
    decoded = capped(raw, 4_000)

    assert decoded.pop("content") == [
        text(f"[result without a content list left out: {len(raw)} bytes, over the limit of 4000]")
    ]
    assert decoded == kept


def test_blanks_between_the_parts_are_not_counted_as_left_out() -> None:
    raw = json.dumps({"content": [text("x" * 9_000), text("y")], "isError": False}, indent=4).encode()

    cut, left_out = cap(raw, 4_000)

    assert texts(json.loads(cut)) == ["x" * (9_000 - left_out) + f"\n[{left_out} bytes left out]", "y"]


@pytest.mark.parametrize("blocks", [b"{}", b"1", b'{"type":"text","text":"x"}'])
def test_a_flood_of_tiny_blocks_is_cut_to_the_first_of_them(blocks: bytes) -> None:
    raw = b'{"content":[%b]}' % b",".join([blocks] * 100_000)

    decoded = capped(raw, 150_000)

    assert len(decoded["content"]) == MAX_BLOCKS + 1
    assert texts({"content": decoded["content"][-1:]})[0].startswith("[rest of the result left out: ")


# Cutting: letters that take one to four bytes, every kind of escape, and rows of backslashes.

PIECES = ["a", "é", "€", "😀", "\n", '"', "\\", "\x01", "\\u", "\\ud83d"]
LETTERS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)


@given(LETTERS, st.integers(0, 40), st.booleans())
def test_text_is_cut_between_letters_whatever_they_are_and_however_they_are_written(
    letters: str, shift: int, ascii_only: bool
) -> None:
    value = letters * 1_200
    raw = json.dumps({"content": [text(value)]}, ensure_ascii=ascii_only).encode()

    cut, left_out = cap(raw, RESERVE + 120 + shift)

    kept, _, mark = texts(json.loads(cut))[0].rpartition("\n[")
    assert kept
    assert value.startswith(kept)
    assert mark == f"{left_out} bytes left out]"


@pytest.mark.parametrize("written", [b"\\n", b"\\\\", b"\\u00e9", b"\\ud83d\\ude00", "😀".encode()])
@pytest.mark.parametrize("shift", range(14))
def test_a_cut_at_any_place_of_a_long_letter_falls_before_or_after_it(written: bytes, shift: int) -> None:
    raw = b'{"content":[{"type":"text","text":"%b"}]}' % (written * 1_000)

    cut, left_out = cap(raw, RESERVE + 200 + shift)

    letter = json.loads(b'"%b"' % written)
    assert left_out % len(written) == 0
    assert texts(json.loads(cut))[0].rpartition("\n[")[0] == letter * (1_000 - left_out // len(written))


def test_bytes_that_are_no_letter_at_all_do_not_stop_a_cut() -> None:
    raw = b'{"content":[{"type":"text","text":"%b"}]}' % (b"\x80" * 5_000)

    assert len(cap(raw, RESERVE + 60)[0]) <= RESERVE + 60


BLOCKS = st.one_of(
    st.integers(0, 3_000).map(lambda size: text("é" * size)),
    st.integers(0, 3_000).map(image),
    st.integers(0, 3_000).map(lambda size: {"type": "resource", "_meta": "y" * size}),
    st.none(),
    st.text(max_size=5),
)
RESULTS = st.builds(
    lambda blocks, fields: {"content": blocks, **fields},
    st.lists(BLOCKS, max_size=12),
    st.dictionaries(
        st.sampled_from(["isError", "_meta", "structuredContent", "resultType", "extra"]),
        st.booleans() | st.integers(0, 2_000).map(lambda size: {"z": "z" * size}),
    ),
)


@given(RESULTS, st.integers(0, 12_000), st.booleans())
def test_a_capped_result_is_valid_json_within_its_limit_and_keeps_whether_it_failed(
    sent: dict[str, Any], limit: int, spaced: bool
) -> None:
    raw = json.dumps(sent, indent=1 if spaced else None).encode()

    cut, left_out = cap(raw, limit)

    assert len(cut) <= max(limit, RESERVE)
    assert isinstance(json.loads(cut)["content"], list)
    assert is_error(cut) is is_error(raw)
    assert 0 <= left_out <= len(raw)
