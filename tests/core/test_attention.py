"""Whoever is quick time after time is waited for awake, and it never costs much where that is in vain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.attention import LONGEST_PENALTY, PENALTY, QUICK, Attention

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
        return next(count for count in range(2 * LONGEST_PENALTY) if self.exchange(SOON, LATE))

    def succeed(self) -> int:
        """The same, and quick then, too."""
        return next(count for count in range(2 * LONGEST_PENALTY) if self.exchange(SOON))


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_nobody_is_waited_for_awake_before_he_was_quick_once(talk: Talk) -> None:
    assert talk.succeed() == 1


def test_whoever_stays_quick_is_waited_for_each_time(talk: Talk) -> None:
    talk.succeed()

    assert all(talk.exchange(SOON) for _ in range(10))


def test_the_wait_is_no_longer_than_a_quick_word_takes(talk: Talk) -> None:
    talk.succeed()

    assert talk.attention.expect(7.0) == 7.0 + QUICK


def test_whoever_is_slow_is_not_waited_for(talk: Talk) -> None:
    assert not any(talk.exchange(LATE) for _ in range(10))


def test_a_wait_in_vain_is_followed_by_words_that_are_slept_through(talk: Talk) -> None:
    talk.fail()

    assert talk.succeed() == PENALTY


def test_slow_words_among_them_do_not_make_them_more(talk: Talk) -> None:
    talk.fail()
    awake = [talk.exchange(LATE if number % 2 == 0 else SOON) for number in range(PENALTY)]

    assert (any(awake), talk.succeed()) == (False, 0)


def test_each_wait_in_vain_makes_them_twice_as_many(talk: Talk) -> None:
    assert [talk.fail() for _ in range(4)] == [1, PENALTY, 2 * PENALTY, 4 * PENALTY]


def test_each_that_was_not_in_vain_makes_them_half_as_many_again(talk: Talk) -> None:
    for _ in range(4):
        talk.fail()
    talk.succeed()
    talk.succeed()
    talk.exchange(LATE)

    assert talk.succeed() == 4 * PENALTY


def test_a_slow_word_now_and_then_costs_little_of_what_is_gained(talk: Talk) -> None:
    awake = [talk.exchange(LATE if number % 100 == 0 else SOON) for number in range(10_000)]

    assert sum(awake) > 8_500


def test_a_word_that_is_not_awaited_any_more_proves_nothing(talk: Talk) -> None:
    talk.succeed()
    talk.attention.expect(200.0)
    talk.attention.expect_nothing(200.0 + SOON)
    talk.attention.came(200.0 + LATE)

    assert talk.succeed() == 0


def test_a_word_that_is_late_when_it_is_not_awaited_any_more_was_waited_for_in_vain(talk: Talk) -> None:
    talk.succeed()
    talk.attention.expect(200.0)
    talk.attention.expect_nothing(200.0 + LATE)

    assert talk.succeed() == PENALTY


def test_so_was_one_that_has_not_come_when_the_next_is_awaited(talk: Talk) -> None:
    talk.succeed()
    talk.attention.expect(50.0)

    assert talk.succeed() == PENALTY


def test_words_that_nobody_awaited_prove_nothing(talk: Talk) -> None:
    for number in range(10):
        talk.attention.came(200.0 + number * SOON)

    assert talk.succeed() == 1


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(1, 20))
def test_what_is_spent_in_vain_is_little_beside_the_words(pattern: list[bool], times: int) -> None:
    talk = Talk()
    words = pattern * times
    for quick in words:
        talk.exchange(SOON if quick else LATE)

    assert talk.in_vain <= (len(words) / PENALTY + 1) * QUICK


def test_where_it_is_always_in_vain_it_costs_next_to_nothing() -> None:
    """As on a single processor: a server cannot answer while we stay awake, and is quick when we sleep."""
    talk, times = Talk(), 100_000
    for _ in range(times):
        talk.exchange(SOON, LATE)

    assert talk.in_vain <= times * QUICK / 500
