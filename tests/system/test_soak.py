"""One minute of the soak; `make soak` runs it for ten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def test_every_promise_is_kept_through_a_minute_of_random_trouble() -> None:
    environment = {**os.environ, "SOAK": "60"}

    soak = subprocess.run(
        [sys.executable, "-m", "tests.soak"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )

    assert (soak.returncode, soak.stderr) == (0, ""), soak.stdout
