"""What the soak calls a broken promise, on states and counts that were made up."""

from collections import Counter

import pytest

from tests.soak.callers import may_end
from tests.soak.oracle import UP, in_other_states, miscounted


def test_a_fleet_that_is_not_up_is_named() -> None:
    servers = {"a": {"state": "connected"}, "b": {"state": "idle"}, "c": {"state": "unavailable"}}

    assert in_other_states(servers, UP) == {"c": "unavailable"}


def test_the_server_that_crashes_by_design_may_be_down() -> None:
    assert in_other_states({"crash": {"state": "unavailable"}}, UP) == {}


@pytest.mark.parametrize(
    ("tool", "outcome", "troubled", "may"),
    [
        ("echo", "ok", False, True),
        ("echo", "tool_error", False, False),
        ("echo", "tool_error", True, False),
        ("echo", "unknown", False, False),
        ("echo", "unknown", True, True),
        ("error", "ok", True, False),
        ("error", "tool_error", False, True),
        ("rpc_error", "tool_error", False, True),
        ("rpc_error", "not_sent", True, True),
        ("crash", "ok", True, False),
        ("crash", "unknown", True, True),
        ("echo", "none", True, False),
    ],
)
def test_a_call_ends_as_its_tool_does_unless_there_is_trouble(
    tool: str, outcome: str, *, troubled: bool, may: bool
) -> None:
    assert may_end(tool, outcome, troubled=troubled) is may


def complaints(told: dict[str, int], counted: dict[str, float], *, abandoned: int = 0) -> int:
    return len(list(miscounted(Counter(told), counted, abandoned=abandoned)))


@pytest.mark.parametrize("outcome", ["ok", "tool_error", "unknown", "not_sent"])
def test_every_outcome_must_be_counted_as_clients_heard_it(outcome: str) -> None:
    assert complaints({outcome: 7}, {outcome: 7.0}) == 0
    assert complaints({outcome: 7}, {outcome: 6.0}) == 1


def test_a_call_that_nobody_made_is_not_counted() -> None:
    assert complaints({"ok": 7}, {"ok": 7.0, "unknown": 1.0}) == 2


def test_abandoned_calls_may_have_ended_in_any_way_but_only_once() -> None:
    assert complaints({"ok": 7}, {"ok": 8.0, "cancelled": 2.0}, abandoned=3) == 0
    assert complaints({"ok": 7}, {"ok": 9.0, "cancelled": 3.0}, abandoned=3) == 1
