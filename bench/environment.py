"""The contenders' own virtual environment, made on demand from pinned versions; and the machine in words."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench.peers import PEERS
from bench.peers.install import pinned_version, run
from bench.processes import ROOT, TOOLS_PYTHON

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_PACKAGES = ("mcp-supervisor", "uvloop", "msgspec", "anyio")


def prepare() -> None:
    """Have `.tools/bench` hold what `requirements.txt` names, made anew only when that has changed.

    Raises:
        Unavailable: it cannot be had, or not in time.
    """
    directory = TOOLS_PYTHON.parents[1]
    made_from = directory / "requirements.txt"
    if made_from.exists() and made_from.read_text() == _REQUIREMENTS.read_text():
        return
    run([sys.executable, "-m", "venv", str(directory)])
    pip = [str(TOOLS_PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--requirement", str(_REQUIREMENTS)])
    made_from.write_text(_REQUIREMENTS.read_text())


def described(contenders: Sequence[str] = ()) -> dict[str, str]:
    """What the figures depend on: the machine, its load, and versions."""
    pinned = dict(line.split("==") for line in _REQUIREMENTS.read_text().splitlines() if "==" in line)
    packages = [f"{name} {version(name)}" for name in _PACKAGES]
    peers = {name: pinned_version(name) for name in contenders if name in PEERS}
    return {
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "python": platform.python_version(),
        "versions": ", ".join([*packages, f"mcp {pinned['mcp']}"]),
        "revision": _revision(),
        **({"peers": ", ".join(f"{name} {number}" for name, number in peers.items())} if peers else {}),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _revision() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"
