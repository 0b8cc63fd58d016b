"""A thousand random edits of the configuration with clients calling throughout: too long for every change."""

from pathlib import Path

import pytest

from tests.e2e.edit_support import follow_random_edits
from tests.e2e.support import launching

EDITS = 1000

pytestmark = [pytest.mark.system, pytest.mark.timeout(60 + EDITS)]


def test_a_thousand_edits_are_followed_and_no_call_fails(tmp_path: Path) -> None:
    with launching(tmp_path) as launcher:
        follow_random_edits(launcher, EDITS)
