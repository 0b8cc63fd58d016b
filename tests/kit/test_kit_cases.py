"""Every case of the hostile-server kit: what it claims, and what must be so after each of them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from supervisor.selftest.case import AGAIN, Bench, Case, perform
from supervisor.selftest.promises import Complaint
from supervisor.selftest.table import CASES
from tests.kit import every

REPEAT = int(os.environ.get("KIT", "1"))
"""How often each case is tried; `make kit` says 20."""
FORGIVEN = AGAIN + REPEAT // 20
"""How many of those tries may have been late by chance: with `KIT=20` three, and four are none."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One daemon for one case after the other; without a tracer, which would make it three times as slow."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
            patch.delenv(name)
        with Bench(tmp_path_factory.mktemp("kit")) as bench:
            yield bench


def named(case: Case) -> str:
    return f"{case.id}-{case.given.replace(' ', '-')}"


@pytest.mark.timeout(60 + 15 * REPEAT)
@pytest.mark.parametrize("case", [*CASES, *every.ROWS], ids=named)
def test_it_ends_as_it_must_and_nothing_else_is_different(case: Case, bench: Bench, tmp_path: Path) -> None:
    results = [perform(case, tmp_path, bench) for _ in range(REPEAT)]

    assert told(each for result in results for each in result.complaints) == []
    forgiven = told(each for result in results for each in result.forgiven)
    assert forgiven[FORGIVEN:] == []


def told(complaints: Iterable[Complaint]) -> list[str]:
    return [f"{each.promise.name}: {each.sentence}" for each in complaints]
