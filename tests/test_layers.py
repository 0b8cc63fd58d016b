"""Who may import whom, and what is not even loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

import supervisor

ROOT = Path(supervisor.__file__).parent.parent


def loaded_by(module: str) -> set[str]:
    """The names of all modules that a new interpreter has after importing this one."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    return set(done.stdout.split())


def test_every_contract_between_the_rooms_is_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )

    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("supervisor.cli", {"pydantic", "anyio", "asyncio", "mcp", "msgspec"}),
        ("supervisor.surfaces.client", {"pydantic", "anyio", "asyncio", "mcp", "msgspec"}),
        (
            "supervisor.daemon",
            {
                "asyncio",
                "uvloop",
                "supervisor.runtime.fleet",
                "supervisor.surfaces.connection",
                "supervisor.surfaces.control",
            },
        ),
        ("supervisor.life", {"mcp", "mcp_types", "httpx2", "psutil", "prometheus_client"}),
        (
            "supervisor.life",
            {"supervisor.core.diagnosis", "supervisor.runtime.http", "supervisor.surfaces.describe"},
        ),
        ("supervisor.demo.server", {"pydantic", "anyio", "asyncio", "mcp", "msgspec"}),
    ],
)
def test_a_program_does_not_load_what_it_may_not_need(module: str, never: set[str]) -> None:
    assert loaded_by(module) & never == set()


def test_the_demo_server_needs_no_room_of_the_daemon() -> None:
    ours = {name for name in loaded_by("supervisor.demo.server") if name.startswith("supervisor.")}

    assert {name for name in ours if not name.startswith("supervisor.demo")} <= {"supervisor.errors"}
