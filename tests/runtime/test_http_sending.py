"""What has not left says so: calls that end while their connection is still being made."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.errors import Outcome, TimedOut
from supervisor.runtime.httpdoor import Handshake, Site, Unreachable
from supervisor.runtime.wire import NotSent
from tests.runtime.fleet_support import Asked, Build
from tests.runtime.http_support import Served, opened_at, serving
from tests.runtime.support import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

PEM = str(Path(__file__).parents[1] / "fake_servers" / "localhost.pem")
MANY = 8
"""More calls than a run that has only just begun has connections."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


@contextmanager
def frozen(served: Served) -> Iterator[None]:
    """Connections to it come about, but nobody greets whoever wants to make them safe."""
    os.kill(served.process.pid, signal.SIGSTOP)
    yield
    os.kill(served.process.pid, signal.SIGCONT)


async def test_a_call_that_expires_before_its_connection_is_made_was_not_sent(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path, "--tls", PEM) as served:
        async with build.up({"remote": {"url": served.url, "caFile": PEM}}) as fleet:
            with frozen(served):
                asked = [
                    Asked(fleet, "remote_echo", arguments={"text": str(number)}, timeout=0.3)
                    for number in range(MANY)
                ]
                ends = [await each.end() for each in asked]
            await Asked(fleet, "remote_echo", arguments={"text": "last"}).text()

            assert all(isinstance(end, TimedOut) for end in ends)
            unsent = {
                str(number) for number, end in enumerate(ends) if end.data["outcome"] == Outcome.NOT_SENT
            }
            assert str(MANY - 1) in unsent
            assert "not sent within" in str(ends[-1])
            assert not unsent & {call["text"] for call in served.ran("echo")}


async def test_a_call_that_its_run_ends_before_its_connection_is_made_was_not_sent(tmp_path: Path) -> None:
    with serving(tmp_path, "--tls", PEM) as served:
        async with opened_at(Site("server", served.url, ca_file=PEM)) as stage:
            with frozen(served):
                asked = [stage.ask("echo", text=str(number))[1] for number in range(MANY)]
                stage.run.close()
                await stage.ended()

            assert isinstance(asked[-1].told[0], NotSent)
            await until(lambda: all(len(each.told) == 1 for each in asked))


async def test_a_call_that_the_server_has_and_does_not_answer_timed_out(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--tls", PEM) as served:
        async with build.up({"remote": {"url": served.url, "caFile": PEM}}) as fleet:
            end = await Asked(fleet, "remote_wait", arguments={"seconds": 30}, timeout=1.0).end()

            assert end.data["outcome"] == Outcome.TIMED_OUT
            assert served.heard("tools/call")


class Connected:
    """What the library has once a connection is there."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.closed = False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        assert name == "server_addr"
        return self._address, 443

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("secure", [True, False])
async def test_a_name_that_leads_to_a_link_local_address_is_refused_before_anything_is_sent(
    secure: bool,
) -> None:
    connection = Connected("169.254.169.254")
    handshake = Handshake("tools.example", secure=secure)

    with pytest.raises(Unreachable, match=r"link-local address 169\.254\.169\.254, which is refused"):
        await handshake.watch("connection.connect_tcp.complete", {"return_value": connection})

    await handshake.give_up()
    assert connection.closed


@pytest.mark.parametrize("secure", [True, False])
async def test_a_connection_that_is_ready_is_left_to_the_library(secure: bool) -> None:
    connection = Connected("127.0.0.1")
    handshake = Handshake("tools.example", secure=secure)

    await handshake.watch("connection.connect_tcp.complete", {"return_value": connection})
    if secure:
        await handshake.watch("connection.start_tls.complete", {"return_value": connection})

    await handshake.give_up()
    assert not connection.closed
