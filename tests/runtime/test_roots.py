"""Servers of the handshake era may ask where to work, if their entry says so."""

import json
from pathlib import Path

import pytest

from tests.files import whole_lines
from tests.runtime.fleet_support import Asked, Build, entry
from tests.runtime.http_support import serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


def offered(log: Path) -> object:
    """What we said at the handshake that we can do, by the log of a fake server."""
    received = [json.loads(line).get("received", {}) for line in whole_lines(log)]
    (greeting,) = (message for message in received if message.get("method") == "initialize")
    return greeting["params"]["capabilities"]


async def test_a_child_is_told_its_roots(build: Build, tmp_path: Path) -> None:
    log = tmp_path / "fake.log"
    child = entry("--era", "legacy", "--log", log, roots=["work", "file:///srv"])
    async with build.up({"fake": child}) as fleet:
        answer = await Asked(fleet, "fake_ask", arguments={"method": "roots/list"}).text()

    assert json.loads(answer) == {"roots": [{"uri": f"file://{tmp_path}/work"}, {"uri": "file:///srv"}]}
    assert offered(log) == {"roots": {}}


async def test_a_child_without_roots_is_told_that_it_cannot_ask(build: Build, tmp_path: Path) -> None:
    log = tmp_path / "fake.log"
    async with build.up({"fake": entry("--era", "legacy", "--log", log)}) as fleet:
        answer = await Asked(fleet, "fake_ask", arguments={"method": "roots/list"}).text()

    assert "roots/list is not supported by this client" in answer
    assert offered(log) == {}


async def test_an_http_server_is_told_its_roots(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as served:
        async with build.up({"remote": {"url": served.url, "roots": ["/srv"]}}) as fleet:
            answer = await Asked(fleet, "remote_ask_back", arguments={"method": "roots/list"}).text()

    assert json.loads(answer) == {"roots": [{"uri": "file:///srv"}]}
