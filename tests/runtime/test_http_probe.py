"""HTTP servers that once ignored the question for their era, and what is remembered of them."""

from pathlib import Path

import anyio
import pytest

from supervisor.runtime.httpdoor import Site
from supervisor.runtime.memory import Memory
from tests.runtime.http_support import opened_at, serving
from tests.runtime.support import PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


async def test_a_server_that_ignores_the_probe_is_greeted_without_one_from_then_on(tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path, "--stateless", "--fault", "silent", "--at", "server/discover") as served:
        async with opened_at(served, memory=memory):
            pass
        await until(lambda: served.gave_up("server/discover") == 1)
        first = len(served.log)
        async with opened_at(served, memory=memory) as stage:
            # Asked again, it is silent again, and that is the answer as soon as nobody waits any more.
            await until(lambda: served.gave_up("server/discover") == 2)

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


NO_GREETINGS = ["rpc_error:404,-32601", "rpc_error:200,-32602", "status:500", "html", "offers:2025-11-25"]


@pytest.mark.parametrize("fault", NO_GREETINGS)
async def test_an_answer_that_offers_no_modern_era_changes_nothing(fault: str, tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path, "--fault", fault, "--at", "server/discover") as served:
        fingerprint = Site("server", served.url).fingerprint
        memory.remember_no_probe(fingerprint)
        async with opened_at(served, memory=memory) as stage:
            await until(lambda: served.heard("server/discover"))

            # Asked once more by us, for only who asks knows when the answer has been weighed.
            with anyio.fail_after(PATIENCE):
                assert not await stage.run.talk.session.takes_a_probe()
            assert memory.cannot_take_a_probe(fingerprint)


async def test_a_server_whose_era_is_configured_is_not_asked_for_it(tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path) as served:
        fingerprint = Site("server", served.url).fingerprint
        memory.remember_no_probe(fingerprint)
        async with opened_at(served, memory=memory, protocol="2025-11-25") as stage:
            await until(lambda: len(stage.listings) == 2)  # its stream, which is asked for as soon, is open
            assert (await stage.call("echo", text="hello")).text == "hello"

            assert served.heard("server/discover") == []
            assert memory.cannot_take_a_probe(fingerprint)


async def test_a_server_that_comes_to_speak_the_modern_era_only_is_found_out_at_once(tmp_path: Path) -> None:
    memory = Memory(None)
    with serving(tmp_path, "--era", "modern") as served:
        fingerprint = Site("server", served.url).fingerprint
        memory.remember_no_probe(fingerprint)
        async with opened_at(served, memory=memory) as stage:
            assert stage.run.talk.session.version == "2026-07-28"
            assert not memory.cannot_take_a_probe(fingerprint)
