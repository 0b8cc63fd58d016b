"""Every case of the hostile-server kit: what it claims, and what must be so after each of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.selftest.case import Bench, Case, perform
from supervisor.selftest.table import CASES
from tests.kit import http_rows, rows

REPEAT = int(os.environ.get("KIT", "1"))
"""How often each case is tried; `make kit` says 20."""


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


@pytest.mark.parametrize("turn", range(REPEAT))
@pytest.mark.parametrize("case", [*CASES, *rows.ROWS, *http_rows.ROWS], ids=named)
def test_it_ends_as_it_must_and_nothing_else_is_different(
    case: Case, turn: int, bench: Bench, tmp_path: Path
) -> None:
    result = perform(case, tmp_path, bench)

    assert [f"{each.promise.name}: {each.sentence}" for each in result.complaints] == []
