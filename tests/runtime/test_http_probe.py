"""HTTP servers that once ignored the question for their era, and what is remembered of them."""

from pathlib import Path

import pytest

from supervisor.runtime.httpdoor import Site
from supervisor.runtime.memory import Memory
from tests.runtime.http_support import opened_at, serving
from tests.runtime.support import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


async def test_a_server_that_ignores_the_probe_is_greeted_without_one_from_then_on(tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path, "--stateless", "--fault", "silent", "--at", "server/discover") as served:
        async with opened_at(served, memory=memory):
            pass
        first = len(served.log)
        async with opened_at(served, memory=memory) as stage:
            await until(lambda: len(served.heard("server/discover")) == 2)

            assert served.log[first]["rpc"] == "initialize"
            assert stage.run.talk.session.version == "2025-11-25"
            assert memory.cannot_take_a_probe(Site("server", served.url).fingerprint)


async def test_a_server_that_comes_to_speak_both_eras_is_found_out(tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path) as served:
        fingerprint = Site("server", served.url).fingerprint
        memory.remember_no_probe(fingerprint)
        async with opened_at(served, memory=memory) as stage:
            assert stage.run.talk.session.version == "2025-11-25"
            await until(lambda: not memory.cannot_take_a_probe(fingerprint))

        async with opened_at(served, memory=memory) as stage:
            assert stage.run.talk.session.version == "2026-07-28"


async def test_a_server_that_comes_to_speak_the_modern_era_only_is_found_out_at_once(tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path, "--era", "modern") as served:
        fingerprint = Site("server", served.url).fingerprint
        memory.remember_no_probe(fingerprint)
        async with opened_at(served, memory=memory) as stage:
            assert stage.run.talk.session.version == "2026-07-28"
            assert not memory.cannot_take_a_probe(fingerprint)
