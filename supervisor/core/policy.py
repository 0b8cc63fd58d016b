"""Which tools may be offered, and which need a yes before each call.

A verdict is read from what the tool says of itself (its MCP annotations) and the operator's policy. It is a
guard against accidents, not against a server that lies.
"""

from typing import Literal, assert_never

import msgspec

from supervisor.core.jsonrpc import UNREADABLE

Policy = Literal["read-only", "confirm", "open"]
Approval = Literal["auto", "confirm"]


class Annotations(msgspec.Struct, frozen=True):
    """What a tool says of itself, as far as it can be understood."""

    read_only: bool | None
    destructive: bool


class Verdict(msgspec.Struct, frozen=True):
    listed: bool
    approval: Approval
    reason: str


class _Hints(msgspec.Struct, rename="camel"):
    read_only_hint: msgspec.Raw = msgspec.Raw(b"null")
    destructive_hint: msgspec.Raw = msgspec.Raw(b"null")


_hints = msgspec.json.Decoder(_Hints)
_BOOLEANS = {b"true": True, b"false": False}


def read_annotations(raw: bytes | msgspec.Raw) -> Annotations | None:
    """The annotations in a definition's JSON, or None when they are no object.

    A `readOnlyHint` that is no boolean counts as absent. A `destructiveHint` that is no boolean counts as
    true: whoever wrote it meant to warn.
    """
    try:
        hints = _hints.decode(raw)
    except UNREADABLE:
        return None
    return Annotations(
        read_only=_BOOLEANS.get(bytes(hints.read_only_hint)),
        destructive=bytes(hints.destructive_hint) not in (b"false", b"null"),
    )


def judge(policy: Policy, annotations: Annotations | None) -> Verdict:
    """What `policy` makes of a tool with these annotations; None is a tool without any."""
    match policy:
        case "read-only":
            return _guard_writes(annotations)
        case "confirm":
            return _ask_first(annotations)
        case "open":
            return Verdict(listed=True, approval="auto", reason="the policy is open")
    assert_never(policy)


def _guard_writes(annotations: Annotations | None) -> Verdict:
    match annotations:
        case Annotations(read_only=False):
            return Verdict(
                listed=False,
                approval="confirm",
                reason="it says readOnlyHint: false and the policy is read-only",
            )
        case Annotations(read_only=True):
            return Verdict(listed=True, approval="auto", reason="it says readOnlyHint: true")
        case _:
            return Verdict(listed=True, approval="auto", reason="it does not say that it writes")


def _ask_first(annotations: Annotations | None) -> Verdict:
    match annotations:
        case Annotations(read_only=True, destructive=False):
            return Verdict(listed=True, approval="auto", reason="it says readOnlyHint: true")
        case Annotations(destructive=True):
            return Verdict(listed=True, approval="confirm", reason="it says that it is destructive")
        case Annotations(read_only=False):
            return Verdict(listed=True, approval="confirm", reason="it says readOnlyHint: false")
        case _:
            return Verdict(listed=True, approval="confirm", reason="it does not say that it only reads")
