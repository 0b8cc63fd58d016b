"""All of it, one case after the other, with news for whoever watches. Prints nothing."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from supervisor.selftest.case import Bench, Case, Result, perform
from supervisor.selftest.report import Report
from supervisor.selftest.speed import Speed, Unmeasured, measure

OnBegin = Callable[[str], None]
OnEnd = Callable[[Result], None]


def run(cases: Sequence[Case], directory: Path, *, speed: bool, on_begin: OnBegin, on_end: OnEnd) -> Report:
    """Perform the cases in this directory, and measure the speed when it is wanted."""
    began, results = time.monotonic(), list[Result]()
    with Bench(directory) as bench:
        for case in cases:
            on_begin(f"{case.given}; {case.when}")
            results.append(perform(case, directory, bench))
            on_end(results[-1])
    measured = None
    if speed:
        on_begin("a call through the daemon, and one without it")
        measured = _measured(directory)
    return Report(results, measured, time.monotonic() - began)


def _measured(directory: Path) -> Speed | Unmeasured:
    try:
        return measure(directory)
    except Exception as trouble:  # noqa: BLE001 - a promise that could not be tried was not seen kept
        return Unmeasured(f"{type(trouble).__name__}: {trouble}")
