"""HTTP servers in a fleet: they look like any other, go when they are gone, and come back by themselves."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.core.phases import Backoff, Ready, Starting, Unavailable
from supervisor.errors import Outcome, ServerUnavailable, SupervisorError
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.tuning import CONNECTED_AFTER
from tests.runtime.fleet_support import SECRET, Asked, Build, entry, reach
from tests.runtime.http_support import remote, serving
from tests.runtime.support import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

NOWHERE = "http://127.0.0.1:1/mcp"
SLOWLY = {"policy": "on-failure", "delay": 600, "maxDelay": 600}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


async def test_servers_of_every_kind_and_era_look_alike(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "legacy") as old, serving(tmp_path, "--era", "modern") as new:
        async with build.up({"child": entry(), "old": remote(old), "new": remote(new)}) as fleet:
            views = {view.name: view for view in fleet.view().servers}

            assert {name: view.state for name, view in views.items()} == dict.fromkeys(views, "connected")
            assert views["old"].protocol == "2025-11-25"
            assert views["new"].protocol == "2026-07-28"
            assert views["new"].pid is None
            assert fleet.member("new").detail(tools=0).server_info == {"name": "fake"}
            for name in ("old", "new"):
                assert await Asked(fleet, f"{name}_echo", arguments={"text": "hi"}).text() == "hi"


async def test_progress_reaches_the_client_under_its_own_token(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--era", "modern") as served:
        async with build.up({"remote": remote(served)}) as fleet:
            asked = Asked(
                fleet,
                "remote_steps",
                arguments={"count": 2, "token": 1},
                _meta={"progressToken": "mine"},
            )
            await asked.end()

            tokens = [params["progressToken"] for _, params in asked.reply.progress]
            assert tokens == ["mine", "mine"]


async def test_a_server_that_needs_credentials_is_not_tried_again(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--fault", "status:401", "--at", "any") as served:
        async with build.up({"remote": remote(served)}) as fleet:
            await reach(fleet, "remote", Unavailable)

            assert "needs credentials" in fleet.member("remote").reason
            assert fleet.member("remote").actor.state.run == 1


async def test_what_was_inserted_into_an_address_or_a_header_is_never_seen(build: Build) -> None:
    servers = {"remote": {"url": f"{NOWHERE}?key=${{KEY}}", "headers": {"X-Key": "${KEY}"}}}
    async with build.up(servers) as fleet:
        assert SECRET not in repr(fleet.member("remote").detail(tools=0))


async def test_a_secret_that_the_server_sends_back_is_seen_neither_in_its_status_nor_in_the_log(
    build: Build, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, "--fault", "reflect:x-key", "--at", "any") as served:
        async with build.up({"remote": remote(served, headers={"X-Key": "${KEY}"})}) as fleet:
            info = fleet.member("remote").detail(tools=0).server_info
            await until(lambda: served.heard("subscriptions/listen"))
            await Asked(fleet, "remote_change").end()

            await until(lambda: "keeping its old tool list" in caplog.text)

            assert info == {"name": "fake", "sent": [{"***": "***"}]}
            assert "who is ***?" in caplog.text
            assert SECRET not in caplog.text


async def test_a_server_that_dies_is_gone_before_anybody_asks_and_returns_by_itself(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path) as served:
        async with build.up({"remote": remote(served)}) as fleet:
            served.kill()
            await reach(fleet, "remote", Backoff)
            assert fleet.catalog.listed == ()
            assert fleet.member("remote").view(tools=0).next_try is not None

            with serving(tmp_path, "--port", served.port):
                await reach(fleet, "remote", Ready)

                assert await Asked(fleet, "remote_echo", arguments={"text": "back"}).text() == "back"


async def test_a_call_wakes_a_server_that_backs_off(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        async with build.up({"remote": remote(served, restart=SLOWLY)}) as fleet:
            assert fleet.catalog.route("remote_echo") is not None
            served.kill()
            await reach(fleet, "remote", Backoff)

            with serving(tmp_path, "--port", served.port):
                assert await Asked(fleet, "remote_echo", arguments={"text": "up"}).text() == "up"


async def test_a_remote_has_proven_itself_sooner_than_a_process(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        async with build.up({"remote": remote(served), "local": entry()}) as fleet:
            proven = {
                name: member.actor.policy.restart.healthy_after for name, member in fleet.members.items()
            }

            assert proven == {"remote": 1.0, "local": 60.0}


def delay_of(fleet: Fleet) -> float:
    """Seconds between the last failure that counts and the try that is due by the schedule."""
    state = fleet.member("remote").actor.state
    return state.due - state.failures[-1]


async def test_a_remote_that_was_connected_begins_again_with_the_shortest_delay(
    build: Build, tmp_path: Path
) -> None:
    restart = {"policy": "on-failure", "delay": 0.2, "maxDelay": 60}
    with serving(tmp_path) as served:
        async with build.up({"remote": remote(served, restart=restart)}) as fleet:
            actor = fleet.member("remote").actor
            served.kill()
            await until(lambda: len(actor.state.failures) >= 3)
            assert delay_of(fleet) >= 0.8

            with serving(tmp_path, "--port", served.port) as back:
                await reach(fleet, "remote", Ready)
                assert fleet.summary("remote").next_try is None
                since = anyio.current_time()
                await until(lambda: anyio.current_time() > since + CONNECTED_AFTER)
                back.kill()

            await reach(fleet, "remote", Backoff)
            assert len(actor.state.failures) == 1
            assert 0.2 <= delay_of(fleet) + 1e-6 <= 0.23
            assert fleet.summary("remote").next_try is not None


async def test_a_call_that_waits_has_a_dead_server_tried_again_and_not_in_a_circle(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path) as served:
        async with build.up({"remote": remote(served, restart=SLOWLY, callTimeout=0.5)}) as fleet:
            assert fleet.catalog.route("remote_echo") is not None
            served.kill()
            await reach(fleet, "remote", Backoff)
            runs = fleet.member("remote").actor.state.run

            end = await Asked(fleet, "remote_echo").end()

            assert end.data["outcome"] == Outcome.NOT_SENT
            assert runs < fleet.member("remote").actor.state.run <= runs + 2


async def test_a_server_that_asks_for_a_pause_says_when_to_come_back(build: Build, tmp_path: Path) -> None:
    with serving(tmp_path, "--fault", "status:429,retry-after=7") as served:
        async with build.up({"remote": remote(served)}) as fleet:
            end = await Asked(fleet, "remote_echo").end()

            assert isinstance(end, ServerUnavailable)
            assert end.data["retryAfter"] == 7
            assert end.data["outcome"] == Outcome.NOT_SENT
            assert fleet.member("remote").ready


async def test_a_server_that_asks_for_a_long_pause_at_its_start_is_let_alone_for_as_long(
    build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path, "--fault", "status:429,retry-after=1200", "--at", "any") as served:
        async with build.up({"remote": remote(served)}) as fleet:
            await reach(fleet, "remote", Backoff)
            member = fleet.member("remote")
            member.wake()
            await anyio.wait_all_tasks_blocked()

            retry_after = member.account(Outcome.NOT_SENT)["retryAfter"]
            assert isinstance(retry_after, float)
            assert retry_after > 600
            assert "asks to be let alone for 1200 s" in member.reason
            assert len(served.log) == 1


async def test_a_call_that_has_less_time_than_its_server_asks_for_is_told_at_once(
    build: Build, tmp_path: Path
) -> None:
    fault = ("--fault", "status:429,retry-after=1200", "--at", "any", "--times", 1)
    with serving(tmp_path, *fault) as served:
        async with build.up({"remote": remote(served)}) as fleet:
            await reach(fleet, "remote", Backoff)

            with pytest.raises(ServerUnavailable, match="asks to be let alone for 1200 s") as refused:
                Asked(fleet, "remote_echo", timeout=60)

            data = refused.value.data
            assert data["outcome"] == Outcome.NOT_SENT
            assert 60 < data["retryAfter"] <= 1200
            assert fleet.summary("remote").pending == 0


async def test_a_call_that_waits_is_told_when_its_server_asks_for_more_time_than_it_has(
    build: Build, tmp_path: Path
) -> None:
    fault = ("--fault", "status:503,retry-after=1200", "--at", "any", "--times", 1)
    with serving(tmp_path, *fault) as served:
        fleet = build({"remote": remote(served)})
        async with fleet.running():
            fleet.start()
            await reach(fleet, "remote", Starting)
            hasty, patient = (Asked(fleet, "remote_echo", timeout=time) for time in (60, 3000))

            end = await hasty.end()
            assert isinstance(end, ServerUnavailable)
            assert end.data["outcome"] == Outcome.NOT_SENT
            assert end.data["retryAfter"] > 60
            assert fleet.summary("remote").pending == 1

            await fleet.start_server("remote")
            await patient.end()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_hundred_calls_across_a_death_and_a_return_each_end_once_and_truly(
    era: str, build: Build, tmp_path: Path
) -> None:
    with serving(tmp_path, "--era", era) as served:
        async with build.up({"remote": remote(served)}, maxResultBytes=4096) as fleet:
            calls = call_all(fleet, range(40), seconds=0.3)
            await until(lambda: len(served.ran("wait")) >= 20)
            served.kill()
            calls |= call_all(fleet, range(40, 70), seconds=0)

            with serving(tmp_path, "--era", era, "--port", served.port):
                calls |= call_all(fleet, range(70, 100), seconds=0)
                outcomes = {number: outcome_of(await asked.end()) for number, asked in calls.items()}

            ran = Counter(arguments["number"] for arguments in served.ran("wait"))
            assert len(outcomes) == 100
            assert all(ran[number] == 1 for number in outcomes if outcomes[number] is Outcome.OK)
            assert all(ran[number] == 0 for number in outcomes if outcomes[number] is Outcome.NOT_SENT)
            assert all(ran[number] <= 1 for number in outcomes if outcomes[number] is Outcome.UNKNOWN)
            assert set(outcomes.values()) <= {Outcome.OK, Outcome.NOT_SENT, Outcome.UNKNOWN}
            assert sum(outcomes[number] is Outcome.OK for number in range(70, 100)) > 0


def call_all(fleet: Fleet, numbers: range, *, seconds: float) -> dict[int, Asked]:
    """Call for every number, at once, each as a client of its own."""
    return {
        number: Asked(
            fleet, "remote_wait", client=f"{number}", arguments={"seconds": seconds, "number": number}
        )
        for number in numbers
    }


def outcome_of(end: Any) -> Outcome:
    return Outcome(end.data["outcome"]) if isinstance(end, SupervisorError) else Outcome.OK
