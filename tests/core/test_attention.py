"""Whoever is quick time after time is waited for awake, and it never costs much where that is in vain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.attention import MOST_PROOFS, PROOFS, QUICK, Attention

SOON, LATE = QUICK / 2, QUICK * 2


class Talk:
    """One exchange after the other; what was spent awake in vain is kept."""

    def __init__(self) -> None:
        self.attention = Attention()
        self._now = 100.0
        self.in_vain = 0.0

    def exchange(self, takes: float, awake_takes: float | None = None) -> bool:
        """Whether the word, which came so much later, was waited for awake."""
        until = self.attention.expect(self._now)
        takes = takes if until == 0 or awake_takes is None else awake_takes
        if until and self._now + takes > until:
            self.in_vain += until - self._now
        self._now += takes
        self.attention.came(self._now)
        return until > 0

    def fail(self) -> int:
        """Be quick until that is waited for, and late then; tells how many quick words it took."""
        return next(count for count in range(2 * MOST_PROOFS) if self.exchange(SOON, LATE))

    def succeed(self) -> int:
        """The same, and quick then, too."""
        return next(count for count in range(2 * MOST_PROOFS) if self.exchange(SOON))


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_nobody_is_waited_for_awake_before_he_was_quick_often_enough(talk: Talk) -> None:
    assert talk.succeed() == PROOFS


def test_whoever_stays_quick_is_waited_for_each_time(talk: Talk) -> None:
    talk.succeed()

    assert all(talk.exchange(SOON) for _ in range(10))


def test_the_wait_is_no_longer_than_a_quick_word_takes(talk: Talk) -> None:
    talk.succeed()

    assert talk.attention.expect(7.0) == 7.0 + QUICK


def test_one_slow_word_ends_it(talk: Talk) -> None:
    talk.succeed()
    talk.exchange(LATE)

    assert not talk.exchange(SOON)


def test_a_slow_word_among_the_proofs_begins_them_anew(talk: Talk) -> None:
    for _ in range(PROOFS - 1):
        talk.exchange(SOON)
    talk.exchange(LATE)

    assert talk.succeed() == PROOFS


def test_each_wait_in_vain_asks_for_twice_the_proof(talk: Talk) -> None:
    assert [talk.fail() for _ in range(3)] == [PROOFS, 2 * PROOFS, 4 * PROOFS]


def test_each_that_was_not_in_vain_asks_for_half_of_it_again(talk: Talk) -> None:
    talk.fail()
    talk.succeed()
    talk.exchange(LATE)

    assert talk.succeed() == 2 * PROOFS


def test_words_that_nobody_awaited_prove_nothing(talk: Talk) -> None:
    for number in range(2 * PROOFS):
        talk.attention.came(200.0 + number * SOON)

    assert talk.succeed() == PROOFS


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(1, 20))
def test_what_is_spent_in_vain_is_little_beside_the_words(pattern: list[bool], times: int) -> None:
    talk = Talk()
    words = pattern * times
    for quick in words:
        talk.exchange(SOON if quick else LATE)

    assert talk.in_vain <= len(words) * QUICK / PROOFS


def test_where_it_is_always_in_vain_it_costs_next_to_nothing() -> None:
    """As on a single processor: a server cannot answer while we stay awake, and is quick when we sleep."""
    talk, times = Talk(), 100_000
    for _ in range(times):
        talk.exchange(SOON, LATE)

    assert talk.in_vain <= times * QUICK / 500
