"""docs/faults.md has every case that was asked for, and every row of the kit; what it names exists."""

import re
from pathlib import Path

import pytest

from supervisor.selftest.table import CASES
from tests.kit import every

ROOT = Path(__file__).parents[1]
_ROW = re.compile(r"^\| ([A-Z]\d+) \| .*? \| (.*) \|$", re.MULTILINE)
FAULTS = dict(_ROW.findall((ROOT / "docs" / "faults.md").read_text()))
KIT = {case.id for case in (*CASES, *every.ROWS)}

ASKED_FOR = """
C1 C2 C3 C4 C5 C6 C7 C8 C9 C11 C13 C14 C15 C16 C19 C20 C21 C22 C23 C25 C26 C28 C29 C31
H1 H2 H3 H4 H5 H7 H8 H9 H10 H11 H12 H14 H15 H17 H18
S1 S2 S3 S4 S5 S6 S7 S9 S10 S11 S12 S14 S15 S16 S18
F1 F3 F4 F5 F6 F7 F8 F12 F13 F14 F15 F16 F17
D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D12 D13 D15 D16 D17
X1 X2 X3 X5 X6 X7 X8 X10 X11 X12
"""
"""The cases of the catalogue that this was built for; those that the page has beyond them are ours."""
_COVER = re.compile(r"kit|`\w+/test_\w+\.py::test_\w+`|open: .+")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+/test_[^`]+)`", " ".join(FAULTS.values())))))
def test_every_test_that_is_named_exists(name: str) -> None:
    file, _, function = name.partition("::")

    assert f"def {function}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.parametrize("fault", ASKED_FOR.split())
def test_every_case_that_was_asked_for_has_its_row(fault: str) -> None:
    assert fault in FAULTS


def test_the_kit_covers_exactly_what_it_is_said_to() -> None:
    said = {fault for fault, cover in FAULTS.items() if "kit" in re.split(r"[,;] ", cover)}

    assert said == KIT


@pytest.mark.parametrize(("fault", "cover"), FAULTS.items())
def test_every_fault_has_a_test_or_says_that_it_has_none(fault: str, cover: str) -> None:
    covered, _, rest = cover.partition("; ")

    assert [each for each in (*covered.split(", "), rest) if each and not _COVER.fullmatch(each)] == []
