"""The daemon takes the descriptors that it may have, and no more."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from supervisor.runtime.rlimits import raise_open_files
soft, hard, most = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
raise_open_files(most)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "most", "after"),
    [
        pytest.param(64, 512, 256, (256, 512), id="up to what is useful"),
        pytest.param(64, 128, 256, (128, 128), id="up to what is allowed"),
        pytest.param(300, 512, 256, (300, 512), id="never down"),
    ],
)
def test_the_soft_limit_is_raised(soft: int, hard: int, most: int, after: tuple[int, int]) -> None:
    command = [sys.executable, "-c", SCRIPT, str(soft), str(hard), str(most)]

    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)

    assert tuple(map(int, said.stdout.split())) == after
