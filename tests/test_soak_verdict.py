"""What the soak calls growth, on samples that were made up."""

import pytest

from tests.soak.memory import MEBIBYTE, Sample, growth, slope


def samples(*held: float) -> list[Sample]:
    """One each ten seconds, in MiB."""
    return [(10.0 * index, int(each * MEBIBYTE)) for index, each in enumerate(held)]


def test_the_slope_of_a_line_is_its_rise_per_second() -> None:
    assert slope(samples(50, 51, 52, 53)) == pytest.approx(MEBIBYTE / 10)


def test_a_single_sample_has_no_slope() -> None:
    assert slope(samples(50)) == 0


@pytest.mark.parametrize(
    ("held", "grown"),
    [
        pytest.param((40, 50, 60, 60, 60, 60), 0, id="the warm-up does not count"),
        pytest.param((60, 60, 60, 60, 62, 64), 4, id="a steady rise"),
        pytest.param((60, 60, 60, 60, 60, 64), 4, id="a rise at the end"),
        pytest.param((60, 60, 60, 64, 62, 60), -4, id="a fall"),
    ],
)
def test_growth_is_what_was_added_after_the_warm_up(held: tuple[float, ...], grown: float) -> None:
    assert growth(samples(*held)) == pytest.approx(grown * MEBIBYTE)


def test_a_rise_that_a_last_low_sample_hides_is_seen_by_its_slope() -> None:
    rise = (60, 62, 64, 66, 68, 70, 72)

    assert growth(samples(*[60] * 8, *rise, 60)) > 5 * MEBIBYTE
