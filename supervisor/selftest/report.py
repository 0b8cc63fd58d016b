"""From what happened to a verdict on each promise; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.selftest.case import Result
from supervisor.selftest.promises import Complaint, Promise
from supervisor.selftest.speed import Speed, Unmeasured

NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: Promise
    kept: bool | None
    """None when nothing that was run could tell."""
    evidence: str


@dataclass(frozen=True, slots=True)
class Report:
    results: Sequence[Result]
    speed: Speed | Unmeasured | None
    seconds: float

    @property
    def ok(self) -> bool:
        return not any(verdict.kept is False for verdict in self.verdicts())

    @property
    def repeated(self) -> int:
        """How many tries did not count: chance alone can have brought what was seen."""
        return sum(len(result.forgiven) for result in self.results)

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each promise, in their order."""
        return tuple(self._verdict(promise) for promise in Promise)

    def _verdict(self, promise: Promise) -> Verdict:
        if promise is Promise.SPEED:
            return self._of_speed()
        broken = [result.case.id for result in self.results if _about(result.complaints, promise)]
        if broken:
            return _broken(promise, f"broken in {', '.join(broken)}")
        tried = sum(promise in result.case.tries for result in self.results)
        if not tried:
            return Verdict(promise, kept=None, evidence=NOT_TRIED)
        held = f"held in {tried} {'case' if tried == 1 else 'cases'}"
        return Verdict(promise, kept=True, evidence=held)

    def _of_speed(self) -> Verdict:
        if self.speed is None:
            return Verdict(Promise.SPEED, kept=None, evidence=NOT_TRIED)
        if isinstance(self.speed, Unmeasured):
            return _broken(Promise.SPEED, f"it could not be measured: {self.speed.reason}")
        evidence = f"a call takes {self.speed.ratio:.1f} times as long as without the daemon"
        return Verdict(Promise.SPEED, not self.speed.complaints(), evidence)

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "promises": [
                {"promise": each.promise.value, "kept": each.kept, "evidence": each.evidence}
                for each in self.verdicts()
            ],
            "cases": [_case(result) for result in self.results],
            "speed": _speed(self.speed) if isinstance(self.speed, Speed) else None,
        }


def _broken(promise: Promise, evidence: str) -> Verdict:
    return Verdict(promise, kept=False, evidence=evidence)


def _about(complaints: Iterable[Complaint], promise: Promise) -> bool:
    return any(complaint.promise is promise for complaint in complaints)


def _speed(speed: Speed) -> dict[str, float]:
    return {"directSeconds": speed.direct, "throughSeconds": speed.through, "ratio": speed.ratio}


def _case(result: Result) -> dict[str, Any]:
    case = result.case
    return {
        "id": case.id,
        "given": case.given,
        "when": case.when,
        "then": case.then,
        "seconds": round(result.seconds, 2),
        "complaints": [_complaint(complaint) for complaint in result.complaints],
        "forgiven": [_complaint(complaint) for complaint in result.forgiven],
    }


def _complaint(complaint: Complaint) -> dict[str, str]:
    return {"promise": complaint.promise.value, "sentence": complaint.sentence}
