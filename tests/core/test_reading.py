"""Models are made from plain values: what is remembered of the writing, and what is refused how."""

from typing import Annotated, Any

import pytest
from msgspec import Meta

from supervisor.core.problems import Fault, Invalid
from supervisor.core.reading import Model, spelling


class Point(Model, frozen=True, kw_only=True):
    x_axis: Annotated[float, Meta(ge=0, le=5e6)] = 0.0
    y_axis: Annotated[float, Meta(ge=0.5)] = 1.0
    name: Annotated[str, Meta(pattern="^[a-z]+$")] = "origin"


class Line(Model, frozen=True, kw_only=True):
    points: tuple[Point, ...]


def test_two_models_are_equal_however_much_of_them_was_written() -> None:
    assert Point.read({"xAxis": 0, "name": "origin"}) == Point.read({}) == Point()


def test_a_model_knows_which_of_its_keys_were_written() -> None:
    assert Point.read({"xAxis": 0, "elsewhere": 1}).written() == {"xAxis": 0.0}
    assert Point(x_axis=1.0).written() == {}


def test_a_changed_field_counts_as_written_and_the_original_stays() -> None:
    original = Point.read({"xAxis": 1})

    assert original.but(name="a").written() == {"xAxis": 1.0, "name": "a"}
    assert original.written() == {"xAxis": 1.0}


def test_a_field_has_one_spelling_in_files() -> None:
    assert spelling(Point) == {"x_axis": "xAxis", "y_axis": "yAxis", "name": "name"}


def test_everything_that_is_wrong_is_found_at_once_with_its_place() -> None:
    with pytest.raises(Invalid) as caught:
        Line.read({"points": [{"xAxis": "a", "name": 1}, {}, []]})

    assert caught.value.faults == (
        Fault(("points", 0, "xAxis"), "must be a number, not a string"),
        Fault(("points", 0, "name"), "must be a string, not a number"),
        Fault(("points", 2), "must be an object, not a list"),
    )
    assert str(caught.value).startswith("points[0].xAxis: must be a number, not a string; ")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"xAxis": 10**400}, "must be at most 5000000"),
        ({"xAxis": float("nan")}, "must be at least 0"),
        ({"xAxis": float("inf")}, "must be at most 5000000"),
        ({"yAxis": 0.25}, "must be at least 0.5"),
        ({"name": "a\n"}, "must match the pattern ^[a-z]+$"),
    ],
)
def test_a_bound_holds_for_every_value_and_is_written_out(document: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        Point.read(document)

    assert [fault.message for fault in caught.value.faults] == [message]
