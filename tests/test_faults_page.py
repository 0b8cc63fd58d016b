"""docs/faults.md: every test that it names exists, and every row of the kit is in it."""

import re
from pathlib import Path

import pytest

from supervisor.selftest.table import CASES
from tests.kit import every

ROOT = Path(__file__).parents[1]
_ROW = re.compile(r"^\| ([A-Z]\d+) \| .*? \| (.*) \|$", re.MULTILINE)
FAULTS = dict(_ROW.findall((ROOT / "docs" / "faults.md").read_text()))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+/test_[^`]+)`", " ".join(FAULTS.values())))))
def test_every_test_that_is_named_exists(name: str) -> None:
    file, _, function = name.partition("::")

    assert f"def {function}(" in (ROOT / "tests" / file).read_text()


def test_the_kit_covers_exactly_what_it_is_said_to() -> None:
    said = {fault for fault, cover in FAULTS.items() if "kit" in re.split(r"[,;] ", cover)}

    assert said == {case.id for case in (*CASES, *every.ROWS)}


@pytest.mark.parametrize(("fault", "cover"), FAULTS.items())
def test_every_fault_has_a_test_or_says_that_it_has_none(fault: str, cover: str) -> None:
    assert re.search(r"kit|test_|^open: ", cover)
