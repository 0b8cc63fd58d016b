"""What the benchmark says of its figures: who is judged, against whom, and what is missing."""

import pytest

from bench.call_suites import calm_blocks, pooled, ratios_between
from bench.calm import Calm, Taken, calmest
from bench.end_suites import Temper, left_after_kill
from bench.figures import NANO, Figure
from bench.harm_suite import Round, over_twin, over_without, slowest, title
from bench.life_suites import HTTP_MEMORY
from bench.plan import Rounds
from bench.table import as_json, table
from bench.targets import TARGETS, judged, missed, verdicts

P50 = "sequential p50"


def told(figure: Figure) -> list[str]:
    """The cells of the only target that was measured."""
    (judgement,) = (each for each in judged([figure]) if each.verdict != "not measured")
    (rows,) = verdicts([judgement])
    (row,) = rows.splitlines()[2:]
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize(
    ("values", "client", "thin"),
    [
        ({"floor": 1.0, "plain": 1.5, "thin": 9.0, "client": 9.5}, "plain", "9"),
        ({"floor": 1.0, "thin": 1.5, "client": 9.0}, "thin", "-"),
        ({"floor": 1.0, "client": 1.5}, "client", "-"),
    ],
)
def test_the_thinnest_client_that_took_part_is_judged_and_thin_shown_beside_it(
    values: dict[str, float], client: str, thin: str
) -> None:
    row = told(Figure(P50, "seconds", values))

    assert row == [P50, client, "1.8 times the floor, at most", "1.5", thin, "kept"]


def test_a_bound_that_is_passed_is_missed() -> None:
    assert told(Figure(P50, "seconds", {"floor": 1.0, "plain": 1.9}))[-1] == "MISSED"


@pytest.mark.parametrize(
    ("between", "verdict"),
    [((1.0, 1.1), "kept"), ((1.0, 1.3), "cannot be told"), ((1.3, 1.5), "MISSED")],
)
def test_what_chance_may_have_moved_past_the_bound_is_not_judged(
    between: tuple[float, float], verdict: str
) -> None:
    figure = Figure(title("notices"), "times", {"plain": 1.1}, {("plain", ""): between})

    assert told(figure)[-1] == verdict


def test_bounds_are_shown_in_the_units_of_their_figure() -> None:
    assert told(Figure(HTTP_MEMORY, "bytes", {"plain": 48.1e6}))[2:4] == ["80.0 MB at most", "48.1 MB"]


def test_the_best_of_the_peers_is_the_one_to_beat() -> None:
    figure = Figure("32 in flight, 1 server", "calls/s", {"plain": 40.0, "mcpo": 4.0, "mcporter": 10.0})

    assert told(figure)[1:] == ["plain", "4 of the best peer, at least", "4", "-", "kept"]


def test_how_far_chance_goes_is_asked_of_the_best_peer() -> None:
    values = {"plain": 40.0, "mcpo": 4.0, "mcporter": 10.0}
    between = {("plain", "mcpo"): (9.0, 11.0), ("plain", "mcporter"): (3.5, 4.5)}

    row = told(Figure("32 in flight, 1 server", "calls/s", values, between))

    assert row[3:] == ["4 (3.5 to 4.5)", "-", "cannot be told"]


def test_chance_is_looked_at_for_the_client_that_is_judged() -> None:
    rounds = Rounds()
    for name, value in {"floor": 1.0, "relay": 2.0, "plain": 3.0, "thin": 4.0, "mcporter": 6.0}.items():
        for _ in range(3):
            rounds.add(name, Taken(value, 0))

    others = {"floor": (3.0, 3.0), "mcporter": (0.5, 0.5)}
    assert rounds.between == {("plain", other): ends for other, ends in others.items()}


def test_without_our_daemon_nothing_is_judged() -> None:
    judgements = judged([Figure(P50, "seconds", {"floor": 1.0, "mcpo": 2.0})])

    assert (judgements, verdicts(judgements)) == ([], [])


@pytest.mark.parametrize("where", ["sequential", "sequential on all processors"])
@pytest.mark.parametrize(("share", "bound"), [("p50", 1.8), ("p99", 3.0)])
def test_calls_one_by_one_are_judged_by_floor_sdk_and_best_peer(where: str, share: str, bound: float) -> None:
    values = {"floor": 1.0, "sdk": 4.0, "plain": 2.0, "mcpo": 8.0, "mcporter": 5.0}

    found = judged([Figure(f"{where} {share}", "seconds", values)])

    assert [(each.target.bound, each.reached) for each in found if each.verdict != "not measured"] == [
        (bound, "2"),
        (1.0, "0.5"),
        (1.0, "0.4"),
    ]


def test_a_target_without_a_figure_is_listed_as_not_measured() -> None:
    found = judged([Figure(P50, "seconds", {"floor": 1.0, "plain": 1.5})])

    assert [each.target for each in found] == list(TARGETS)
    unmeasured = next(each for each in found if each.target.figure == HTTP_MEMORY)
    assert unmeasured.row == [HTTP_MEMORY, "-", "80.0 MB at most", "-", "-", "not measured"]


@pytest.mark.parametrize(
    ("reached", "between", "failed"),
    [(1.9, (1.9, 1.9), True), (1.9, (1.7, 2.1), False), (1.5, (1.5, 1.5), False)],
)
def test_only_a_bound_that_was_certainly_passed_is_missed(
    reached: float, between: tuple[float, float], failed: bool
) -> None:
    figure = Figure(P50, "seconds", {"floor": 1.0, "plain": reached}, {("plain", "floor"): between})

    assert missed(judged([figure])) is failed


@pytest.mark.parametrize("times", [1, 2])
def test_too_few_rounds_tell_nothing_about_a_ratio(times: int) -> None:
    rounds = Rounds()
    for name, value in {"floor": 1.0, "plain": 9.0}.items():
        for _ in range(times):
            rounds.add(name, Taken(value, 0))

    figure = Figure("list 500 tools p50", "seconds", rounds.medians, rounds.between)

    assert told(figure)[3:] == ["9 (of too few rounds)", "-", "cannot be told"]
    assert "Infinity" not in as_json([figure], {}, [])


@pytest.mark.parametrize("temper", ["stubborn", "ordinary"])
def test_servers_left_after_a_kill_are_judged_whatever_their_temper(temper: Temper) -> None:
    assert told(Figure(left_after_kill(temper), "count", {"plain": 1}))[2:] == [
        "0 at most",
        "1",
        "-",
        "MISSED",
    ]


def test_a_figure_that_a_contender_cannot_have_is_a_dash() -> None:
    shown = table([Figure("kill -9 to status p50", "seconds", {"plain": 0.004})], ["floor", "plain"])

    assert shown.splitlines()[-1] == "| kill -9 to status p50 |     - | 4.00 ms |"


def test_short_blocks_of_calls_are_taken_together_and_say_how_far_chance_goes() -> None:
    blocks = [{"floor": [1] * 99 + [100], "plain": [2] * 99 + [200]} for _ in range(10)]

    assert pooled(blocks, 0.99) == {"floor": pytest.approx(100 * NANO), "plain": pytest.approx(200 * NANO)}
    assert ratios_between(blocks, 0.99) == {("plain", "floor"): (2.0, 2.0)}


def test_all_calls_beside_a_bad_server_are_taken_together() -> None:
    def calls(nanoseconds: int, *, stolen: int = 0) -> list[Taken[list[int]]]:
        return [Taken([nanoseconds] * 100, stolen)]

    rounds = [
        Round(calls(2), calls(2), calls(1)),
        Round(calls(4), calls(2), calls(2)),
        Round(calls(99, stolen=1), calls(1), calls(1)),
    ]

    assert (over_twin(rounds), over_without(rounds)) == (2.0, 2.0)
    assert [figure.values for figure in slowest("crash", rounds)] == [
        {"plain": pytest.approx(4 * NANO)},
        {"plain": pytest.approx(2 * NANO)},
    ]


def test_a_measurement_that_time_was_stolen_from_is_taken_again() -> None:
    clock = iter([0, 5, 5, 5])
    values = iter(["disturbed", "calm", "once too often"])
    calm = Calm(10.0, clock.__next__)

    assert calm.take(values.__next__) == Taken("calm", 0)
    assert str(calm) == "from 0 of 1 measurements"


def test_where_no_try_was_left_alone_the_calmest_is_taken() -> None:
    clock = iter([0, 5, 5, 6, 6, 8])
    values = iter("abc")
    calm = Calm(10.0, clock.__next__)

    assert calm.take(values.__next__, tries=3) == Taken("b", 1)
    assert str(calm) == "from 1 of 1 measurements"


def test_nothing_is_taken_again_when_the_time_for_that_is_over() -> None:
    clock = iter([0, 5])

    assert Calm(0.0, clock.__next__).take(lambda: "first") == Taken("first", 5)


@pytest.mark.parametrize(
    ("stolen", "counted"),
    [([0, 0, 0], "abc"), ([0, 9, 0], "ac"), ([3, 9, 0], "ca"), ([3, 9, 1], "ca")],
)
def test_only_calm_measurements_count_where_there_are_enough(stolen: list[int], counted: str) -> None:
    taken = [Taken(value, ticks) for value, ticks in zip("abc", stolen, strict=True)]

    assert calmest(taken, least=2) == list(counted)


def test_a_turn_keeps_the_blocks_that_were_calm() -> None:
    turns = [
        {"floor": Taken([1], 0), "plain": Taken([2], 7)},
        {"floor": Taken([3], 0), "plain": Taken([4], 0)},
    ]

    assert calm_blocks(turns, least=1) == [{"floor": [1]}, {"floor": [3], "plain": [4]}]


def test_rounds_say_how_far_chance_goes_and_count_the_calm_ones() -> None:
    rounds = Rounds()
    for floor, plain, stolen in [(1.0, 2.0, 0), (2.0, 4.0, 0), (3.0, 6.0, 0), (1.0, 99.0, 5)]:
        rounds.add("floor", Taken(floor, 0))
        rounds.add("plain", Taken(plain, stolen))

    assert rounds.medians == {"floor": 1.5, "plain": 4.0}
    assert rounds.between == {("plain", "floor"): (2.0, 2.0)}
