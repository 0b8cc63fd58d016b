"""The words under which phases are shown, and the shape of what is shown."""

import msgspec
import pytest

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
from supervisor.core.view import ExitView, ServerDetail, phase_word, state_word


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
