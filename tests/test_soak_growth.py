"""What the soak calls growth, on points that were made up."""

from collections.abc import Sequence

import pytest

from tests.soak.growth import FEWEST, Point, Series, growth, slope

WARM_UP = 2
WARMING = (40.0, 50.0)
"""What was held at the rests that do not count."""


def points(held: Sequence[float]) -> list[Point]:
    """One after each hundred pieces of work."""
    return [(100.0 * (index + 1), each) for index, each in enumerate(held)]


def judged(*held: float, most: float = 5.0) -> str:
    """The complaint about these, and nothing more than `most` is allowed."""
    series = Series("memory", most, WARM_UP, points=points(held))
    return series.complaint(100.0 * len(held))


def test_the_slope_of_a_line_is_its_rise_per_piece_of_work() -> None:
    assert slope(points((50, 51, 52, 53))) == pytest.approx(0.01)


@pytest.mark.parametrize("held", [(), (50.0,)])
def test_fewer_than_two_points_have_no_slope(held: Sequence[float]) -> None:
    assert slope(points(held)) == 0


@pytest.mark.parametrize(
    ("held", "grown"),
    [
        pytest.param((60, 60, 60, 60), 0, id="the warm-up does not count"),
        pytest.param(
            (60, 61, 62, 63, 64, 65, 66, 67), 10, id="what the warm-up hid is added at the same slope"
        ),
        pytest.param((60, 60, 60, 60, 60, 60, 60, 64), 4, id="a rise at the end"),
        pytest.param((64, 63, 62, 61), -3, id="a fall"),
    ],
)
def test_growth_is_that_of_the_whole_work_at_the_slope_after_the_warm_up(
    held: Sequence[float], grown: float
) -> None:
    found = points((*WARMING, *held))

    assert growth(found[WARM_UP:], whole=found[-1][0]) == pytest.approx(grown)


def test_a_rise_that_a_last_low_point_hides_is_seen_by_its_slope() -> None:
    assert "memory grew" in judged(*WARMING, 60, 62, 64, 66, 68, 70, 72, 60)


def test_a_leak_of_a_thousand_bytes_a_kill_is_too_much_for_ten_thousand_kills() -> None:
    leaking = Series(
        "memory", 5_000_000, WARM_UP, points=[(kills, 1000.0 * kills) for kills in range(833, 10_001, 833)]
    )

    assert "memory grew" in leaking.complaint(10_000)


def test_growth_within_what_is_allowed_is_no_complaint() -> None:
    assert judged(*WARMING, 60, 61, 61, 61, 62, 62) == ""


@pytest.mark.parametrize("count", range(WARM_UP + FEWEST))
def test_too_few_rests_are_no_verdict(count: int) -> None:
    assert "cannot judge" in judged(*[60.0] * count)


def test_one_more_task_at_each_rest_is_too_much() -> None:
    assert "memory grew" in judged(67, 68, 69, 70, 71, 72, most=2)
