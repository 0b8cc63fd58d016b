"""A source that talks without end gets little of our time; one that talks now and then is never held up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.pace import AWAITED, CREDIT, IDLE, LEAST, LONGEST, Pace

SHORT = CREDIT
"""What may be heard before a rest is due."""


def test_what_is_said_now_and_then_costs_no_rest() -> None:
    pace = Pace()

    assert [pace.rest(SHORT, now=100.0 + number) for number in range(10)] == [0.0] * 10


def test_what_goes_on_after_that_is_rested_for() -> None:
    pace = Pace()
    pace.rest(SHORT, now=100.0)

    assert pace.rest(0.002, now=100.002) == pytest.approx(0.002 * (AWAITED - 1))


def test_a_rest_that_is_not_worth_a_timer_is_saved_up() -> None:
    pace, word = Pace(), LEAST / AWAITED
    pace.rest(SHORT, now=100.0)
    rests = [pace.rest(word, now=100.0 + number * word) for number in (1, 2)]

    assert rests == [0.0, pytest.approx(2 * (AWAITED - 1) * word)]


def test_a_source_floods_while_it_owes_much() -> None:
    pace = Pace()
    seen = [pace.floods]
    for took, now in ((SHORT, 100.0), (0.0, 101.0)):
        pace.rest(took, now)
        seen.append(pace.floods)

    assert seen == [False, True, False]


def test_while_nobody_waits_for_it_the_rest_is_longer() -> None:
    pace = Pace()
    pace.rest(SHORT, now=100.0)

    assert pace.rest(0.0001, now=100.0001, share=IDLE) == pytest.approx(0.0001 * (IDLE - 1))


def test_a_long_rest_is_taken_in_parts() -> None:
    pace = Pace()
    pace.rest(SHORT, now=100.0)
    rests = [pace.rest(0.001, now=100.001, share=IDLE), pace.rest(0.0, now=100.001 + LONGEST, share=IDLE)]

    assert rests == [LONGEST, pytest.approx(0.001 * (IDLE - 1) - LONGEST)]


@given(st.lists(st.floats(1e-6, 1e-2), min_size=50, max_size=50), st.sampled_from([AWAITED, IDLE]))
def test_whatever_it_says_it_gets_no_more_than_its_share(words: list[float], share: int) -> None:
    pace, now = Pace(), 1000.0
    for took in words:
        now += took
        rest = pace.rest(took, now, share)
        while rest:
            now += rest
            rest = pace.rest(0.0, now, share)

    assert sum(words) <= ((now - 1000.0 + LEAST) / (share - 1) + CREDIT) * 1.001
