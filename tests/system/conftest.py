"""A systemd for each module of tests, and a service that leaves nothing behind for each test.

Modules run side by side, so each has a systemd of its own.
"""

import os
from collections.abc import Iterator

import pytest

from supervisor.runtime.units import plan
from tests.system.lab import Lab
from tests.system.service import PROGRAM, SOCKET, UNIT, Service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the module that takes longest, so that the others go on beside it."""
    items.sort(key=lambda item: item.path.stem != "test_soak")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("systemd") / "share") as lab:
        for path, text in plan(user=False, environ=os.environ, program=PROGRAM).files.items():
            lab.unit(path.name, text)
        yield lab


@pytest.fixture
def service(lab: Lab) -> Iterator[Service]:
    service = Service(lab)
    service.drop_in("")
    lab.unit(f"{SOCKET}.d/test.conf", "")
    yield service
    lab.ctl("stop", SOCKET, UNIT)
    lab.ctl("reset-failed")
    assert lab.processes(UNIT) == []
