"""Have peers in `.tools/peers`, from pinned versions; one that cannot be had is left out, with a reason."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.processes import ROOT

_BENCH = Path(__file__).parents[1]
_TOOLS = ROOT / ".tools" / "peers"
_NODE = _TOOLS / "node"
_FROM_NPM = ("mcporter", "mcp-hub")
_SHORT = 160
_LONGEST = 300.0
"""Seconds that one installation may take."""


class Unavailable(Exception):
    """Something cannot be had on this machine; says why."""


def programs(name: str) -> Path:
    """The directory that has the peer's programs."""
    return _NODE / "node_modules" / ".bin" if name in _FROM_NPM else _TOOLS / name / "bin"


def pins(name: str) -> Path:
    """The file that says which versions a peer is made of."""
    return _BENCH / ("package.json" if name in _FROM_NPM else f"requirements-{name}.txt")


def pinned_version(name: str) -> str:
    """The version of a peer; one from npm also says which node runs it."""
    text = pins(name).read_text()
    if name not in _FROM_NPM:
        return text.partition(f"\n{name}==")[2].partition("\n")[0]
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return f"{json.loads(text)['dependencies'][name]} (node {node})"


def available(names: Iterable[str]) -> list[str]:
    """Those of these peers that are installed now; a line on standard error for each other one."""
    found: list[str] = []
    for name in names:
        try:
            _install(name)
        except Unavailable as exc:
            print(f"{name} is left out: {exc}", file=sys.stderr)
        else:
            found.append(name)
    return found


def _install(name: str) -> None:
    """Make it anew only when its pins have changed.

    Raises:
        Unavailable: a program or a registry is missing.
    """
    wanted = pins(name).read_text()
    made_from = programs(name).parent / "made-from"
    if made_from.exists() and made_from.read_text() == wanted:
        return
    if name in _FROM_NPM:
        _with_npm(wanted)
    else:
        _with_pip(name)
    made_from.write_text(wanted)


def _with_npm(package: str) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise Unavailable("cannot find node and npm; install them")
    _NODE.mkdir(parents=True, exist_ok=True)
    (_NODE / "package.json").write_text(package)
    run(["npm", "install", "--prefix", str(_NODE), "--no-audit", "--no-fund", "--loglevel=error"])


def _with_pip(name: str) -> None:
    run([sys.executable, "-m", "venv", "--clear", str(programs(name).parent)])
    pip = [str(programs(name) / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--requirement", str(pins(name))])


def run(command: list[str]) -> None:
    """Run an installation.

    Raises:
        Unavailable: it failed, or did not end in time.
    """
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cannot install it within {_LONGEST:.0f} s; try again") from None
    except subprocess.CalledProcessError as exc:
        raise Unavailable(f"cannot install it; see to this and try again: {_complaint(exc.stderr)}") from None


def _complaint(said: str) -> str:
    """The line that names the trouble: npm and pip both begin theirs with the word, and go on for long."""
    lines = [line for line in said.splitlines() if "error" in line.lower()]
    return lines[0][:_SHORT] if lines else said[-_SHORT:]
