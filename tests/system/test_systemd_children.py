"""Servers that npx and uvx install and run, inside the shipped sandbox; no network is there."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.lab import missing, until
from tests.system.service import UNIT, Json, Service

TOOLS = Path(__file__).parents[2] / ".tools"
PINNED = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]
PINS = Path(__file__).with_name("requirements.txt").read_text().split()
UVX = Path(sys.executable).with_name("uvx")
PATIENCE = 60.0
NOT_HERE = missing()
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(180),
    pytest.mark.skipif(NOT_HERE is not None, reason=str(NOT_HERE)),
]


def npx(package: str) -> Json:
    words = ["--yes", "--offline", "--registry", registry(), f"{package}@{PINNED[package]}"]
    return {"command": shutil.which("npx"), "args": words, "startTimeout": PATIENCE}


def registry() -> str:
    """The one that the cache was filled from, by which it knows its packages."""
    asked = ["npm", "config", "get", "registry"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout.strip()


def uvx(package: str) -> Json:
    [pinned] = [pin for pin in PINS if pin.startswith(f"{package}==")]
    places = ["--offline", "--no-index", "--find-links", str(TOOLS / "python/wheels")]
    words = [*places, "--python", sys.executable, "--from", pinned, package]
    return {"command": str(UVX), "args": words, "startTimeout": PATIENCE}


def cached(service: Service, name: str) -> list[str]:
    """What a program keeps in the service's cache directory."""
    return service.lab.run("ls", "-A", f"/var/cache/mcp-supervisor/{name}").stdout.split()


@pytest.mark.skipif(not (TOOLS / "node/cache").is_dir(), reason="no npm cache; run tests/system/prepare")
def test_npx_installs_and_runs_a_server_in_the_sandbox(service: Service) -> None:
    service.lab.run("mkdir", "-p", "-m", "700", "/var/cache/private", "/var/cache/private/mcp-supervisor")
    service.lab.run("cp", "-r", str(TOOLS / "node/cache"), "/var/cache/private/mcp-supervisor/npm")

    service.start(everything=npx("@modelcontextprotocol/server-everything"))
    until(lambda: service.connected("everything"), seconds=PATIENCE)

    assert "5" in str(service.command("call", "everything_get-sum", "a:=2", "b:=3"))
    assert "_npx" in cached(service, "npm")
    assert service.state == "active"


@pytest.mark.skipif(not (TOOLS / "python/wheels").is_dir(), reason="no wheels; run tests/system/prepare")
def test_uvx_installs_and_runs_a_server_in_the_sandbox(service: Service) -> None:
    service.start(time=uvx("mcp-server-time"))
    until(lambda: service.connected("time"), seconds=PATIENCE)

    told = service.command("call", "time_get_current_time", "timezone=Europe/Berlin")
    assert "Europe/Berlin" in str(told)
    assert cached(service, "uv")
    assert service.lab.show(UNIT, "Result") == "success"
