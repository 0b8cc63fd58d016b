"""The speed that `selftest` tells: both ways are measured alike, and what is slow is called so."""

import io
from pathlib import Path

import pytest

from supervisor.selftest import speed
from supervisor.selftest.case import INNOCENTS
from supervisor.selftest.lab import Lab
from supervisor.selftest.report import Report


@pytest.mark.parametrize(("ratio", "kept"), [(0.9, True), (2.3, True), (3.1, False), (10.0, False)])
def test_the_verdict_is_about_how_many_times_as_long_a_call_takes(ratio: float, kept: bool) -> None:
    *_, verdict = Report((), speed.Speed(0.0001, 0.0001 * ratio), 0.0).verdicts()

    assert verdict.kept is kept


def test_both_ways_are_read_through_a_buffer(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    try:
        lab.start(INNOCENTS)
        with speed.directly() as direct, speed.through(lab.socket) as longer:
            direct.call()
            longer.call()
            assert {type(way.answers) for way in (direct, longer)} == {io.BufferedReader}
        lab.end()
    finally:
        lab.destroy()


def test_a_way_that_is_as_long_as_five_is_too_slow() -> None:
    with speed.directly() as way:

        def slowed() -> None:
            for _ in range(5):
                way.call()

        found = speed.compare(way.call, slowed)

    assert found.complaints()
