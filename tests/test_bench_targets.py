"""What the benchmark says of its figures: who is judged, against whom, and what is missing."""

import pytest

from bench.figures import Figure
from bench.table import table
from bench.targets import verdicts

P50 = "sequential p50"


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ({"floor": 1.0, "plain": 1.5, "thin": 9.0, "client": 9.0}, "plain"),
        ({"floor": 1.0, "thin": 1.5, "client": 9.0}, "thin"),
        ({"floor": 1.0, "client": 1.5}, "client"),
    ],
)
def test_the_thinnest_client_that_took_part_is_judged(values: dict[str, float], client: str) -> None:
    (line,) = verdicts([Figure(P50, "seconds", values)])

    assert line.startswith(f"met     {P50}, {client}: 1.5,")


def test_a_bound_that_is_passed_is_missed() -> None:
    (line,) = verdicts([Figure(P50, "seconds", {"floor": 1.0, "plain": 1.9})])

    assert line.startswith("MISSED")


def test_the_best_of_the_peers_is_the_one_to_beat() -> None:
    figure = Figure("32 in flight, 1 server", "calls/s", {"plain": 40.0, "mcpo": 4.0, "mcporter": 10.0})

    (line,) = verdicts([figure])

    assert line == "met     32 in flight, 1 server, plain: 4, target 4 of the best peer at least"


def test_without_our_daemon_nothing_is_judged() -> None:
    assert verdicts([Figure(P50, "seconds", {"floor": 1.0, "mcpo": 2.0})]) == []


def test_a_figure_that_a_contender_cannot_have_is_a_dash() -> None:
    shown = table([Figure("kill -9 to status p50", "seconds", {"plain": 0.004})], ["floor", "plain"])

    assert shown.splitlines()[-1] == "| kill -9 to status p50 |     - | 4.00 ms |"
