"""The examples of docs/clients.md, run as they stand against a real daemon."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import PATIENCE, Launcher, launching

DOCUMENT = Path(__file__).parents[1] / "docs" / "clients.md"
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
PYTHON = [code for language, code in EXAMPLES if language == "python"]
[BASH] = [code for language, code in EXAMPLES if language == "bash"]
[NODE] = [code for language, code in EXAMPLES if language == "javascript"]

NC = f"""\
#!{sys.executable}
import os, shutil, socket, sys
assert sys.argv[1:3] == ["-N", "-U"]
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout({PATIENCE})
    connection.connect(sys.argv[3])
    connection.sendall(sys.stdin.buffer.read())
    connection.shutdown(socket.SHUT_WR)
    with connection.makefile("rb") as answers:
        shutil.copyfileobj(answers, sys.stdout.buffer)
"""
"""A stand-in for `nc -N -U PATH`, where neither socat nor nc is installed."""


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    with launching(tmp_path_factory.mktemp("examples")) as launcher:
        launcher.start({"demo": {"command": "${supervisor:python}", "args": ["-m", "supervisor.demo"]}})
        yield launcher


def run(launcher: Launcher, words: list[str], code: str, *, path: str | None = None) -> str:
    environ = {**launcher.environment, "MCP_SUPERVISOR_SOCKET": str(launcher.socket)}
    done = subprocess.run(
        words,
        input=code,
        env={**environ, "PATH": path or environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE * 2,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def test_the_async_example_lists_and_calls(launcher: Launcher) -> None:
    tools, moment = run(launcher, [sys.executable, "-"], PYTHON[0]).splitlines()[:2]

    assert "'demo_time_now'" in tools
    assert moment


def test_the_sync_example_lists_and_calls(launcher: Launcher) -> None:
    servers, moment = run(launcher, [sys.executable, "-"], PYTHON[1]).splitlines()[:2]

    assert servers == "['demo']"
    assert moment


def check_bash(said: str) -> None:
    listed, called = said.splitlines()

    assert '"state":"connected"' in listed
    assert '"error":false' in called


@pytest.mark.parametrize("program", ["socat", "nc"])
def test_the_bash_example_lists_and_calls(launcher: Launcher, tmp_path: Path, program: str) -> None:
    (tmp_path / program).symlink_to(needed(program))

    check_bash(run(launcher, ["/bin/bash", "-s"], BASH, path=str(tmp_path)))


def test_the_bash_example_needs_no_more_than_a_pipe_to_the_socket(launcher: Launcher, tmp_path: Path) -> None:
    stand_in = tmp_path / "nc"
    stand_in.write_text(NC)
    stand_in.chmod(0o755)

    check_bash(run(launcher, ["/bin/bash", "-s"], BASH, path=str(tmp_path)))


def test_the_node_example_lists_and_calls(launcher: Launcher) -> None:
    said = run(launcher, [needed("node"), "-"], NODE)

    assert "'demo_time_now'" in said
    assert "error: false" in said


def test_the_examples_are_short() -> None:
    for code, most in ((PYTHON[0], 10), (BASH, 20), (NODE, 20)):
        assert len(code.splitlines()) <= most
