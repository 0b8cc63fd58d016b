"""From what happened to a verdict on each promise; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.selftest.case import Result
from supervisor.selftest.promises import Complaint, Promise
from supervisor.selftest.speed import Speed


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: Promise
    kept: bool | None
    """None when nothing that was run could tell."""
    evidence: str


@dataclass(frozen=True, slots=True)
class Report:
    results: Sequence[Result]
    speed: Speed | None
    seconds: float

    @property
    def ok(self) -> bool:
        return not any(verdict.kept is False for verdict in self.verdicts())

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each promise, in their order."""
        return tuple(self._verdict(promise) for promise in Promise)

    def _verdict(self, promise: Promise) -> Verdict:
        if promise is Promise.SPEED:
            return self._of_speed()
        broken = [result for result in self.results if any(_about(result.complaints, promise))]
        if not self.results:
            return Verdict(promise, None, "not tested")
        held = f"held in {len(self.results)} cases"
        names = ", ".join(result.case.id for result in broken)
        return Verdict(promise, not broken, f"broken in {names}" if broken else held)

    def _of_speed(self) -> Verdict:
        if self.speed is None:
            return Verdict(Promise.SPEED, None, "not tested")
        evidence = f"a call takes {self.speed.ratio:.1f} times as long as without the daemon"
        return Verdict(Promise.SPEED, not self.speed.complaints(), evidence)

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        speed = self.speed
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "promises": [
                {"promise": each.promise.value, "kept": each.kept, "evidence": each.evidence}
                for each in self.verdicts()
            ],
            "cases": [_case(result) for result in self.results],
            "speed": speed
            and {"directSeconds": speed.direct, "throughSeconds": speed.through, "ratio": speed.ratio},
        }


def _about(complaints: Iterable[Complaint], promise: Promise) -> list[Complaint]:
    return [complaint for complaint in complaints if complaint.promise is promise]


def _case(result: Result) -> dict[str, Any]:
    case = result.case
    return {
        "id": case.id,
        "given": case.given,
        "when": case.when,
        "then": case.then,
        "seconds": round(result.seconds, 2),
        "complaints": [
            {"promise": complaint.promise.value, "sentence": complaint.sentence}
            for complaint in result.complaints
        ],
    }
