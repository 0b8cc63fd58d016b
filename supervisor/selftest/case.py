"""A case: what is given, what happens, what must be so then. How it is performed, and that it never hangs.

Owns the order of events around one case. What must be so after every case is `oracle`'s to say.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from supervisor.errors import SupervisorError
from supervisor.selftest.innocent import Innocent, harm
from supervisor.selftest.lab import Entry, Lab, TooLate, hostile
from supervisor.selftest.oracle import aftermath, baseline, contradictions, leftovers
from supervisor.selftest.promises import Complaint, Promise

BAD, GOOD = "bad", "good"
AGAIN = 2
"""How often a case is repeated whose only fault may have been the machine's."""
LOOKED_AT_IN_COMPANY = (Promise.NOTHING_LEFT, Promise.NO_HARM, Promise.TRUTH)
LOOKED_AT_ALONE = (Promise.NOTHING_LEFT,)
"""What is looked at after every case, whatever it is about."""
INNOCENTS: Mapping[str, Entry] = {GOOD: hostile("polite")}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended, as the caller was told."""

    outcome: str
    said: str
    known: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Scene:
    """What the steps of one case share."""

    lab: Lab
    servers: Mapping[str, Entry]
    answers: list[Answer] = field(default_factory=list[Answer])
    first_pid: int | None = None
    """The bad server's process at the beginning."""
    noted: dict[str, float] = field(default_factory=dict[str, float])
    """Figures of an earlier step."""
    closing: ExitStack = field(default_factory=ExitStack)
    """What is ended after the case, when the bad server has been taken away."""


Step = Callable[[Scene], None]
Check = Callable[[Scene], str | None]
"""Says what is not as it must be; None when all is well."""


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    """Its name in docs/faults.md."""
    promise: Promise
    given: str
    when: str
    then: str
    acts: tuple[Step, ...]
    checks: tuple[Check, ...]
    servers: Mapping[str, Entry] = field(default_factory=lambda: {BAD: hostile()})
    """What is configured beside the innocent; usually a server that behaves until it is called."""
    own_daemon: bool = False
    """Whether it concerns the daemon's own life, and so needs one for itself."""

    @property
    def tries(self) -> frozenset[Promise]:
        """The promises that it can find broken: its own, and what is looked at wherever it is played."""
        return frozenset({self.promise, *(LOOKED_AT_ALONE if self.own_daemon else LOOKED_AT_IN_COMPANY)})


@dataclass(frozen=True, slots=True)
class Seen:
    """What was not as it must be."""

    complaints: Sequence[Complaint]
    forgiven: Sequence[Complaint] = ()
    """Of the tries before the last: chance alone can have brought it, and it was not seen again and again."""


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    complaints: tuple[Complaint, ...]
    seconds: float
    forgiven: tuple[Complaint, ...] = ()
    """What a try was repeated for, and is no complaint as long as it is rare."""


def perform(case: Case, directory: Path, bench: "Bench") -> Result:
    """Let the case happen, and say what was not as it must be, whatever goes wrong meanwhile."""
    began = time.monotonic()
    try:
        seen = Seen(_alone(case, directory)) if case.own_daemon else bench.among_innocents(case)
    except Exception as trouble:  # noqa: BLE001 - a promise that could not be tried was not seen kept
        bench.close()
        seen = Seen([Complaint(case.promise, _broken_off(trouble))])
    return Result(case, tuple(seen.complaints), time.monotonic() - began, tuple(seen.forgiven))


class Bench:
    """One daemon with an innocent server, for one case after the other; a new one when it did not survive."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lab: Lab | None = None
        self._innocent: Innocent | None = None
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave nothing."""
        if self._innocent is not None:
            self._innocent.close()
        if self._lab is not None:
            with suppress(TooLate):
                self._lab.end()
            self._lab.destroy()
        self._lab = self._innocent = None

    def among_innocents(self, case: Case) -> Seen:
        """Add the bad server, act, check, take it away, and look whether anything is different."""
        try:
            lab, innocent = self._ready()
            return _repeatedly(case, lab, innocent)
        except (SupervisorError, TooLate, OSError) as trouble:
            self.close()
            return Seen([Complaint(Promise.NO_HARM, f"the daemon does not answer: {trouble}")])

    def _ready(self) -> tuple[Lab, Innocent]:
        if self._lab is None or self._innocent is None:
            self._number += 1
            home = self._directory / f"bench-{self._number}"
            home.mkdir()
            self._lab = Lab(home)
            self._lab.start(INNOCENTS)
            involved = [self._lab.pid, self._lab.client.server(GOOD)["pid"]]
            self._innocent = Innocent(self._lab.socket, tool=f"{GOOD}_echo", involved=involved)
        return self._lab, self._innocent


def _repeatedly(case: Case, lab: Lab, innocent: Innocent) -> Seen:
    """What was seen the first time, unless chance alone can have brought it; then the last time."""
    forgiven = list[Complaint]()
    complaints = _observed(case, lab, innocent)
    for _ in range(AGAIN):
        if not complaints or not all(complaint.by_chance for complaint in complaints):
            break
        forgiven += complaints
        complaints = _observed(case, lab, innocent)
    sure = [complaint for complaint in complaints if not complaint.by_chance]
    if not sure:
        return Seen(complaints, forgiven)
    # What chance can have brought adds nothing to what is sure, and nobody looked again.
    return Seen(sure, [*forgiven, *(complaint for complaint in complaints if complaint.by_chance)])


def _observed(case: Case, lab: Lab, innocent: Innocent) -> list[Complaint]:
    lab.begin_journal()
    before = baseline(lab)
    scene = Scene(lab, case.servers)
    with scene.closing, innocent.watched() as watch:
        lab.reload({**INNOCENTS, **case.servers})
        complaints = [*_played(case, scene), *contradictions(lab)]
        lab.reload(INNOCENTS)
    return [*complaints, *harm(watch), *aftermath(lab, before)]


def _alone(case: Case, directory: Path) -> list[Complaint]:
    home = directory / f"alone-{case.id}"
    home.mkdir(exist_ok=True)
    lab = Lab(home)
    lab.begin_journal()
    try:
        lab.spawn(case.servers)
        scene = Scene(lab, case.servers)
        with scene.closing:
            complaints = _played(case, scene)
        return [*complaints, *_ended(lab), *leftovers(lab)]
    finally:
        lab.destroy()


def _ended(lab: Lab) -> list[Complaint]:
    try:
        status = lab.end()
    except TooLate as late:
        return [Complaint(Promise.NOTHING_LEFT, str(late))]
    return [] if status == 0 else [Complaint(Promise.NOTHING_LEFT, f"the daemon ended with status {status}")]


def _played(case: Case, scene: Scene) -> list[Complaint]:
    """Act and check; a step that fails ends the case, and a check that fails does not end the others."""
    try:
        for act in case.acts:
            act(scene)
        found = [complaint for check in case.checks if (complaint := check(scene)) is not None]
    except Exception as trouble:  # noqa: BLE001 - as above
        found = [_broken_off(trouble)]
    return [Complaint(case.promise, sentence) for sentence in found]


def _broken_off(trouble: Exception) -> str:
    """In its own words when we foresaw it; else with its type, without which it may say nothing."""
    foreseen = isinstance(trouble, SupervisorError | TooLate | OSError)
    said = str(trouble) if foreseen else f"{type(trouble).__name__}: {trouble}"
    return f"the case could not be played to its end: {said}"
