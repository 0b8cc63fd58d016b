"""Daemons for tests: one of its own for a test that disturbs it, one per file for those that do not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Launcher, Loop, launching


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    with launching(tmp_path) as launcher:
        yield launcher


@pytest.fixture(params=["uvloop", "asyncio"])
def either_loop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Launcher]:
    """For what must be so on either event loop."""
    loop: Loop = request.param
    with launching(tmp_path, loop=loop) as launcher:
        yield launcher


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def shared_on_either_loop(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Launcher]:
    loop: Loop = request.param
    with launching(tmp_path_factory.mktemp(loop), loop=loop) as launcher:
        yield launcher


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """For a daemon that all tests of one file use and none disturbs."""
    with launching(tmp_path_factory.mktemp("shared")) as launcher:
        yield launcher
