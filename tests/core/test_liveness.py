"""What the evidence says of a server that fell silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from supervisor.core.liveness import BUSY_FOR, Alive, Ask, Dead, Evidence, judge, next_look

INTERVAL = 10.0
SILENT = Evidence(now=1000.0, heard_at=900.0, moved_at=900.0)
ASKED = replace(SILENT, answers=True, asked_at=990.0)
CALLED = replace(ASKED, called_at=950.0)

TABLE = [
    pytest.param(replace(SILENT, heard_at=995.0), Alive("it spoke"), id="spoke"),
    pytest.param(
        replace(ASKED, heard_at=990.1, frozen_at=900.0), Alive("it spoke"), id="whoever speaks is not frozen"
    ),
    pytest.param(SILENT, Alive("it is silent, and was never seen to answer a probe"), id="cannot be asked"),
    pytest.param(replace(ASKED, asked_at=None), Ask("it is silent"), id="can be asked"),
    pytest.param(replace(ASKED, asked_at=900.0), Ask("it is silent"), id="a word since the last probe"),
    pytest.param(replace(ASKED, asked_at=990.1), Alive("it was asked"), id="has time to answer"),
    pytest.param(ASKED, Dead("did not answer a probe for 10 s"), id="did not answer"),
    pytest.param(
        replace(ASKED, moved_at=None), Dead("did not answer a probe for 10 s"), id="has no processes"
    ),
    pytest.param(
        replace(ASKED, heard_at=970.1, moved_at=1000.0),
        Alive("it works on something of its own"),
        id="works",
    ),
    pytest.param(
        replace(ASKED, heard_at=970.0, moved_at=1000.0),
        Dead("did not answer a probe for 10 s"),
        id="works for too long without a word",
    ),
    pytest.param(
        replace(SILENT, frozen_at=990.0),
        Dead("was stopped by a signal and did not go on for 10 s"),
        id="frozen",
    ),
    pytest.param(
        replace(SILENT, frozen_at=990.1),
        Alive("it is silent, and was never seen to answer a probe"),
        id="frozen a moment ago",
    ),
    pytest.param(replace(CALLED, called_at=990.1), Alive("its calls are young"), id="young call"),
    pytest.param(replace(CALLED, moved_at=990.1), Alive("it works on a call"), id="works on a call"),
    pytest.param(replace(CALLED, asked_at=None), Ask("it is silent"), id="still during a call"),
    pytest.param(
        CALLED, Alive("it does not answer, but a call is under way"), id="a failed probe during a call"
    ),
    pytest.param(
        replace(CALLED, expired_at=960.0),
        Dead("did not answer a probe for 10 s"),
        id="a call expired since its last word",
    ),
    pytest.param(
        replace(CALLED, expired_at=960.0, called_at=999.0),
        Dead("did not answer a probe for 10 s"),
        id="a young call does not help then",
    ),
    pytest.param(
        replace(CALLED, expired_at=890.0),
        Alive("it does not answer, but a call is under way"),
        id="a call expired before its last word",
    ),
    pytest.param(
        replace(CALLED, frozen_at=990.0),
        Dead("was stopped by a signal and did not go on for 10 s"),
        id="frozen during a call",
    ),
]


@pytest.mark.parametrize(("evidence", "verdict"), TABLE)
def test_a_server_is_judged_by_the_cheapest_proof(evidence: Evidence, verdict: Alive | Ask | Dead) -> None:
    assert judge(evidence, interval=INTERVAL) == verdict


MOMENTS = st.floats(0.0, 100.0)
MAYBE = st.none() | MOMENTS
EVIDENCE = st.builds(
    Evidence,
    now=st.just(100.0),
    heard_at=MOMENTS,
    called_at=MAYBE,
    expired_at=MAYBE,
    moved_at=MAYBE,
    frozen_at=MAYBE,
    answers=st.booleans(),
    asked_at=MAYBE,
)
INTERVALS = st.floats(0.1, 200.0)


@given(EVIDENCE, INTERVALS)
def test_a_server_that_never_answered_a_probe_is_never_sent_one_that_counts(
    evidence: Evidence, interval: float
) -> None:
    verdict = judge(replace(evidence, answers=False, frozen_at=None), interval=interval)

    assert isinstance(verdict, Alive)


@given(EVIDENCE, INTERVALS)
def test_an_unanswered_probe_alone_condemns_nobody_while_a_call_is_under_way(
    evidence: Evidence, interval: float
) -> None:
    calm = replace(evidence, called_at=evidence.called_at or 0.0, expired_at=None, frozen_at=None)

    assert not isinstance(judge(calm, interval=interval), Dead)


@given(EVIDENCE, INTERVALS)
def test_processes_that_move_save_a_server_that_has_a_call(evidence: Evidence, interval: float) -> None:
    busy = replace(evidence, called_at=evidence.called_at or 0.0, moved_at=100.0, frozen_at=None)

    assert isinstance(judge(busy, interval=interval), Alive)


@given(EVIDENCE, INTERVALS)
def test_whoever_spoke_within_the_interval_lives(evidence: Evidence, interval: float) -> None:
    spoke = replace(evidence, heard_at=100.0)

    assert judge(spoke, interval=interval) == Alive("it spoke")


@given(EVIDENCE, INTERVALS)
def test_nobody_is_dead_before_two_intervals_of_silence_unless_frozen(
    evidence: Evidence, interval: float
) -> None:
    verdict = judge(replace(evidence, frozen_at=None), interval=interval)

    if isinstance(verdict, Dead):
        assert evidence.asked_at is not None
        assert evidence.heard_at < evidence.asked_at <= evidence.now - interval + 1e-9


@given(EVIDENCE, INTERVALS)
def test_the_next_look_is_later_and_at_most_an_interval_away(evidence: Evidence, interval: float) -> None:
    due = next_look(evidence, interval=interval)

    assert evidence.now < due <= evidence.now + interval


def test_work_of_its_own_excuses_a_server_for_a_few_intervals_only() -> None:
    silences = [INTERVAL * count for count in range(1, BUSY_FOR + 2)]
    working = (
        Evidence(now=1000.0, heard_at=1000.0 - silence, moved_at=1000.0, answers=True) for silence in silences
    )

    verdicts = [type(judge(evidence, interval=INTERVAL)) for evidence in working]

    assert verdicts == [Alive] * (BUSY_FOR - 1) + [Ask] * 2
