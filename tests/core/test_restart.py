"""Whether to try again, and when: arithmetic on the times of failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.restart import Decision, GiveUp, RestartPolicy, Retry, decide, recent

PATIENT = RestartPolicy(mode="on-failure", max_failures=2000)


def after(
    policy: RestartPolicy, failures: tuple[float, ...], *, clean: bool = False, jitter: float = 0.0
) -> Decision:
    return decide(policy, failures, clean=clean, now=100.0, jitter=jitter)


@pytest.mark.parametrize(
    ("count", "delay"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (8, 30.0), (1999, 30.0)]
)
def test_the_delay_doubles_up_to_its_limit(count: int, delay: float) -> None:
    decision = after(PATIENT, (100.0,) * count)

    assert isinstance(decision, Retry)
    assert decision.delay == delay


@pytest.mark.parametrize(("jitter", "delay"), [(0.0, 0.5), (0.5, 0.525), (1.0, 0.55)])
def test_jitter_lengthens_the_delay_by_up_to_a_tenth(jitter: float, delay: float) -> None:
    decision = after(PATIENT, (100.0,), jitter=jitter)

    assert isinstance(decision, Retry)
    assert decision.delay == pytest.approx(delay)


def test_a_retry_says_when_and_how_much_of_the_budget_is_used() -> None:
    policy = RestartPolicy(mode="always")

    assert after(policy, (99.0, 100.0)) == Retry(1.0, "to be tried again, failure 2 of at most 5")


@pytest.mark.parametrize(
    ("policy", "clean", "decision"),
    [
        (RestartPolicy(), False, GiveUp("")),
        (RestartPolicy(), True, GiveUp("")),
        (
            RestartPolicy(mode="on-failure"),
            True,
            GiveUp("not restarted, as it ended cleanly and restart is on-failure"),
        ),
    ],
)
def test_what_nobody_wants_restarted_is_not(policy: RestartPolicy, clean: bool, decision: Decision) -> None:
    assert after(policy, (100.0,), clean=clean) == decision


def test_always_restarts_what_ended_cleanly() -> None:
    assert isinstance(after(RestartPolicy(mode="always"), (100.0,), clean=True), Retry)


@pytest.mark.parametrize(
    ("failures", "given_up"),
    [
        pytest.param((97.0, 98.0, 99.0, 100.0), False, id="one below the budget"),
        pytest.param((96.0, 97.0, 98.0, 99.0, 100.0), True, id="at the budget"),
        pytest.param((-200.0, 97.0, 98.0, 99.0, 100.0), False, id="one is just too old to count"),
        pytest.param((-199.9, 97.0, 98.0, 99.0, 100.0), True, id="one is just young enough"),
    ],
)
def test_the_budget_is_failures_within_a_window(failures: tuple[float, ...], given_up: bool) -> None:
    decision = after(RestartPolicy(mode="on-failure"), failures)

    assert decision == GiveUp("crash loop: 5 failures in 300 s") if given_up else isinstance(decision, Retry)


@given(st.lists(st.floats(0, 1000)), st.floats(1, 500))
def test_recent_failures_keep_their_order_and_lie_in_the_window(times: list[float], window: float) -> None:
    kept = recent(tuple(sorted(times)), now=1000.0, window=window)

    assert list(kept) == sorted(at for at in times if 1000.0 - at < window)


@given(
    st.builds(
        RestartPolicy,
        mode=st.sampled_from(["never", "on-failure", "always"]),
        delay=st.floats(0.05, 3600),
        max_delay=st.floats(0.05, 86400),
        max_failures=st.integers(1, 10_000),
        window=st.floats(0.1, 1000),
    ),
    st.lists(st.floats(-1000, 100), max_size=30),
    st.floats(0, 0.999),
)
def test_a_delay_is_positive_and_bounded(policy: RestartPolicy, times: list[float], jitter: float) -> None:
    decision = after(policy, (*sorted(times), 100.0), jitter=jitter)

    assert isinstance(decision, GiveUp) or 0 < decision.delay <= policy.max_delay * 1.1
