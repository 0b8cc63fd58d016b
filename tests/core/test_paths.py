"""Where the control socket is, as a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.paths import LONGEST, control_socket, control_sockets
from supervisor.errors import BadConfig

EVERYTHING = {
    "MCP_SUPERVISOR_SOCKET": "/env/sock",
    "RUNTIME_DIRECTORY": "/run/one:/run/two",
    "XDG_RUNTIME_DIR": "/run/user/7",
}
NO_CHOICE = {key: value for key, value in EVERYTHING.items() if key != "MCP_SUPERVISOR_SOCKET"}
SESSION = {"XDG_RUNTIME_DIR": "/run/user/7"}


@pytest.mark.parametrize(
    ("explicit", "environ", "uid", "configured", "expected"),
    [
        ("/given", EVERYTHING, 7, "/configured", "/given"),
        (None, EVERYTHING, 7, "/configured", "/env/sock"),
        (None, NO_CHOICE, 7, "/configured", "/configured"),
        (None, NO_CHOICE, 7, None, "/run/one/control.sock"),
        (None, SESSION, 7, None, "/run/user/7/mcp-supervisor/control.sock"),
        (None, {}, 0, None, "/run/mcp-supervisor/control.sock"),
        (None, {}, 7, None, "/tmp/mcp-supervisor-7/control.sock"),
        (None, dict.fromkeys(EVERYTHING, ""), 0, None, "/run/mcp-supervisor/control.sock"),
    ],
)
def test_the_nearest_choice_wins(
    explicit: str | None, environ: dict[str, str], uid: int, configured: str | None, expected: str
) -> None:
    assert control_socket(explicit, environ, uid=uid, configured=configured) == expected


def test_a_client_looks_in_the_users_places_before_the_systems() -> None:
    assert control_sockets(None, SESSION, uid=7) == (
        "/run/user/7/mcp-supervisor/control.sock",
        "/tmp/mcp-supervisor-7/control.sock",
        "/run/mcp-supervisor/control.sock",
    )


def test_a_chosen_place_is_the_only_one() -> None:
    assert control_sockets("/given", EVERYTHING, uid=7) == ("/given",)


@pytest.mark.parametrize("path", ["", "/a\0b", "/" + "x" * LONGEST, "/" + "é" * (LONGEST // 2 + 1)])
def test_a_path_that_no_socket_can_have_is_refused_with_advice(path: str) -> None:
    with pytest.raises(BadConfig, match=r"^cannot use .*--socket"):
        control_socket(path, {}, uid=0)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_exactly_the_paths_that_fit_are_accepted(path: str) -> None:
    fits = len(path.encode()) <= LONGEST

    try:
        accepted = control_socket(path, {}, uid=0) == path
    except BadConfig:
        accepted = False

    assert accepted == fits
