"""Half a character is replaced; whole ones, and what only looks like a half, stay."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.surrogates import without_halves


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (rb'"cut \ud83d"', rb'"cut \ufffd"'),
        (rb'"\uDE00 cut"', rb'"\ufffd cut"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"a path: C:\\ud83d"', rb'"a path: C:\\ud83d"'),
        (rb'"\\\ud83d"', rb'"\\\ufffd"'),
        (rb'"\\ud83d\ude00"', rb'"\\ud83d\ufffd"'),
        (b'"plain"', b'"plain"'),
        (b'"' + rb"\\" * 100 + rb'\ud83d"', b'"' + rb"\\" * 100 + rb'\ufffd"'),
        (b'"' + rb"\\" * 100 + rb'\\ud83d"', b'"' + rb"\\" * 100 + rb'\\ud83d"'),
        (rb"\ud83d", rb"\ufffd"),
        (rb'"\ud83d\ud83d"' * 10_001, rb'"\ud83d\ud83d"' * 10_001),
    ],
)
def test_only_halves_are_replaced(text: bytes, mended: bytes) -> None:
    assert without_halves(text) == mended


@given(st.text(st.characters(codec=None)))
def test_what_comes_out_is_text_and_what_was_whole_is_untouched(text: str) -> None:
    mended: str = json.loads(without_halves(json.dumps(text).encode()))

    assert mended.encode("utf-8", "strict").decode() == mended
    if not any(0xD800 <= ord(each) < 0xE000 for each in text):
        assert mended == text
