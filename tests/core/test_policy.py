"""Which tools are listed, and which need a yes."""

import pytest

from supervisor.core.policy import Annotations, Policy, judge, read_annotations


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"readOnlyHint": true}', Annotations(read_only=True, destructive=False)),
        (b'{"readOnlyHint":false,"title":"x"}', Annotations(read_only=False, destructive=False)),
        (b'{"destructiveHint":true}', Annotations(read_only=None, destructive=True)),
        (b'{"destructiveHint":false}', Annotations(read_only=None, destructive=False)),
        (b'{"readOnlyHint":"false"}', Annotations(read_only=None, destructive=False)),
        (b'{"readOnlyHint":null,"destructiveHint":null}', Annotations(read_only=None, destructive=False)),
        (b'{"destructiveHint":"yes"}', Annotations(read_only=None, destructive=True)),
        (b"{}", Annotations(read_only=None, destructive=False)),
        (b"null", None),
        (b'["readOnlyHint"]', None),
        (b"nonsense", None),
        (b'{"x":' + b"[" * 9_999 + b"]" * 9_999 + b"}", None),
    ],
)
def test_annotations_are_read_as_far_as_they_can_be_understood(
    raw: bytes, expected: Annotations | None
) -> None:
    assert read_annotations(raw) == expected


READS = Annotations(read_only=True, destructive=False)
WRITES = Annotations(read_only=False, destructive=False)
SAYS_BOTH = Annotations(read_only=True, destructive=True)
DESTROYS = Annotations(read_only=False, destructive=True)
SAYS_NOTHING = Annotations(read_only=None, destructive=False)


@pytest.mark.parametrize(
    ("policy", "annotations", "listed", "approval"),
    [
        ("read-only", READS, True, "auto"),
        ("read-only", None, True, "auto"),
        ("read-only", SAYS_NOTHING, True, "auto"),
        ("read-only", SAYS_BOTH, True, "auto"),
        ("read-only", WRITES, False, "confirm"),
        ("read-only", DESTROYS, False, "confirm"),
        ("confirm", READS, True, "auto"),
        ("confirm", None, True, "confirm"),
        ("confirm", SAYS_NOTHING, True, "confirm"),
        ("confirm", SAYS_BOTH, True, "confirm"),
        ("confirm", WRITES, True, "confirm"),
        ("confirm", DESTROYS, True, "confirm"),
        ("open", READS, True, "auto"),
        ("open", None, True, "auto"),
        ("open", DESTROYS, True, "auto"),
    ],
)
def test_a_verdict_follows_from_policy_and_annotations_and_has_a_reason(
    policy: Policy, annotations: Annotations | None, listed: bool, approval: str
) -> None:
    verdict = judge(policy, annotations)

    assert (verdict.listed, verdict.approval) == (listed, approval)
    assert verdict.reason


def test_a_refusal_names_the_hint_and_the_policy() -> None:
    assert judge("read-only", WRITES).reason == "it says readOnlyHint: false and the policy is read-only"
