"""What was packed comes out as it was, in pieces that fit."""

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.gunzip import PIECE, Gunzip, NotGzip


@given(st.binary(max_size=300), st.integers(1, 50), st.integers(1, 400))
def test_what_was_packed_comes_out_as_it_was(seed: bytes, times: int, step: int) -> None:
    packed, gunzip = gzip.compress(seed * times), Gunzip()

    pieces = [piece for at in range(0, len(packed), step) for piece in gunzip.feed(packed[at : at + step])]

    assert b"".join(pieces) == seed * times


def test_a_bomb_unfolds_in_pieces_and_only_as_far_as_it_is_asked_to() -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))

    pieces = Gunzip().feed(bomb)

    assert [len(next(pieces)) for _ in range(3)] == [PIECE] * 3


def test_everything_comes_out_as_soon_as_it_can() -> None:
    all_but_the_checksum = gzip.compress(bytes(PIECE + 100))[:-8]

    assert b"".join(Gunzip().feed(all_but_the_checksum)) == bytes(PIECE + 100)


def test_what_follows_the_end_is_left_alone() -> None:
    assert list(Gunzip().feed(gzip.compress(b"a") + b"more")) == [b"a"]


def test_what_follows_the_end_is_not_kept() -> None:
    gunzip = Gunzip()
    list(gunzip.feed(gzip.compress(b"a")))
    tail = bytes(1024 * 1024)

    tracemalloc.start()
    assert [list(gunzip.feed(tail)) for _ in range(8)] == [[]] * 8
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert gunzip.ended
    assert held < len(tail)


def test_what_is_not_packed_is_refused() -> None:
    with pytest.raises(NotGzip):
        list(Gunzip().feed(b"plain text"))
