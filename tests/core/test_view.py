"""The words under which phases are shown, and the shape of what is shown."""

from itertools import pairwise

import msgspec
import pytest

from supervisor.core.catalog import LeftOut
from supervisor.core.phases import (
    Backoff,
    Idle,
    Killing,
    Phase,
    Ready,
    Starting,
    StopCause,
    Stopped,
    Stopping,
    Unavailable,
)
from supervisor.core.view import ExitView, ServerDetail, keeps_its_tools, phase_word, shown, state_word


@pytest.mark.parametrize(
    ("phase", "state", "exact"),
    [
        (Stopped(), "stopped", "stopped"),
        (Idle(), "idle", "idle"),
        (Starting(1.0), "connecting", "starting"),
        (Ready(1.0), "connected", "ready"),
        (Stopping(1.0, StopCause.IDLE, "x"), "stopping", "stopping"),
        (Killing(1.0, StopCause.IDLE, "x"), "stopping", "killing"),
        (Backoff(1.0), "unavailable", "backoff"),
        (Unavailable("x"), "unavailable", "unavailable"),
    ],
)
def test_a_phase_has_one_word_for_dashboards_and_an_exact_one(phase: Phase, state: str, exact: str) -> None:
    assert state_word(phase, enabled=True) == state
    assert phase_word(phase) == exact


def test_a_server_that_is_switched_off_is_called_disabled() -> None:
    assert state_word(Stopped(), enabled=False) == "disabled"


def test_views_are_written_in_the_camel_case_of_the_control_api() -> None:
    keys = {field.encode_name for field in msgspec.structs.fields(ServerDetail)}

    assert {"name", "state", "phase", "nextTry", "serverInfo", "leftOut"} <= keys
    assert not [key for key in keys if "_" in key]


def test_an_end_is_shown_with_all_its_keys() -> None:
    shown = msgspec.to_builtins(ExitView("exited with code 1", 1.0, code=1))

    assert shown == {"reason": "exited with code 1", "at": 1.0, "code": 1, "signal": None}


ASLEEP = Stopping(1.0, StopCause.IDLE, "not used")
WOKEN = Stopping(1.0, StopCause.RESTART, "not used")


@pytest.mark.parametrize(
    "way",
    [
        (Stopped(), Starting(1.0), Ready(1.0)),
        (Stopped(), Idle()),
        (Stopped(), Idle(), Starting(1.0)),
        (Stopped(), Idle(), Starting(1.0), Ready(1.0), ASLEEP, Idle()),
        (Stopped(), Starting(1.0), Ready(1.0), ASLEEP, Killing(1.0, StopCause.IDLE, "not used"), Idle()),
        (Stopped(), Starting(1.0), Ready(1.0), ASLEEP, Starting(1.0)),
    ],
    ids=lambda way: ">".join(map(phase_word, way)),
)
def test_a_server_that_answers_or_sleeps_or_is_woken_keeps_its_tools(way: tuple[Phase, ...]) -> None:
    assert offered_after(way)


@pytest.mark.parametrize(
    "way",
    [
        (Stopped(), Starting(1.0)),
        (Stopped(), Starting(1.0), Backoff(1.0)),
        (Stopped(), Idle(), Starting(1.0), Unavailable("x")),
        (Stopped(), Idle(), Stopped()),
        (Stopped(), Starting(1.0), Ready(1.0), WOKEN, Starting(1.0)),
        (Stopped(), Starting(1.0), Ready(1.0), Killing(1.0, StopCause.REQUESTED, "x")),
        (Stopped(), Starting(1.0), Ready(1.0), Backoff(1.0), Starting(1.0)),
    ],
    ids=lambda way: ">".join(map(phase_word, way)),
)
def test_a_server_that_cannot_answer_loses_its_tools(way: tuple[Phase, ...]) -> None:
    assert not offered_after(way)


def offered_after(way: tuple[Phase, ...]) -> bool:
    offered = False
    for before, after in pairwise(way):
        offered = keeps_its_tools(before, after, offered=offered)
    return offered


def test_a_tool_that_is_left_out_is_shown_with_its_reason() -> None:
    assert shown(LeftOut("s", "t", "s_t", "policy", "it writes")) == {
        "server": "s",
        "tool": "t",
        "name": "s_t",
        "cause": "policy",
        "reason": "it writes",
    }
