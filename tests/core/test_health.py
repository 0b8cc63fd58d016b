"""Health in words."""

import pytest

from supervisor.core.health import Condition, headline, shortfalls, status_line


def down(name: str, reason: str = "exited with code 1") -> Condition:
    return Condition(name, "unavailable", reason)


UP = Condition("up", "connected", "answers")


@pytest.mark.parametrize(
    ("servers", "line"),
    [
        ([], "0/0 connected"),
        ([UP], "1/1 connected"),
        ([UP, Condition("off", "disabled", "")], "1/1 connected"),
        ([UP, Condition("soon", "connecting", "")], "1/2 connected"),
        (
            [UP, down("github", "exited with code 1; crash loop: 5 failures in 300 s")],
            "1/2 connected; github: crash loop",
        ),
        ([down("a"), down("b"), down("c"), down("d"), down("e")][:3], "0/3 connected; " + "; ".join(
            f"{name}: exited with code 1" for name in "abc"
        )),
        ([down(name) for name in "abcde"], "0/5 connected; " + "; ".join(
            f"{name}: exited with code 1" for name in "abc"
        ) + "; 2 more"),
    ],
)  # fmt: skip
def test_a_status_line_counts_and_names_the_broken(servers: list[Condition], line: str) -> None:
    assert status_line(servers) == line


def test_a_long_reason_is_cut() -> None:
    assert headline("x" * 200) == "x" * 60 + "…"


@pytest.mark.parametrize(
    ("server", "ready"),
    [
        (Condition("s", "connected", "answers", critical=True), True),
        (Condition("s", "idle", "waits for a first call", critical=True), True),
        (Condition("s", "unavailable", "gone", critical=False), True),
        (Condition("s", "unavailable", "gone", critical=True), False),
        (Condition("s", "disabled", "by an operator", critical=True), False),
    ],
)
def test_only_a_critical_server_that_takes_no_calls_makes_us_unready(server: Condition, ready: bool) -> None:
    assert shortfalls([server]) == (() if ready else (f"s: {server.state} ({server.reason})",))
