"""Both clients against a real daemon and a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from supervisor.client import Client, Progress, ServerDied, SyncClient, TimedOut, UnknownServer, UnknownTool
from tests.e2e.support import PATIENCE, Launcher, fake, launching, until
from tests.files import whole_lines


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    directory = tmp_path_factory.mktemp("live")
    servers = {"files": fake("--log", directory / "files.log"), "frail": fake(restart="always")}
    with launching(directory) as launcher:
        launcher.start(servers, policy="open")
        yield launcher


@pytest.fixture
def path(launcher: Launcher) -> str:
    return str(launcher.socket)


def cancellations(launcher: Launcher) -> int:
    """How often the server was told that a call is cancelled."""
    lines = whole_lines(launcher.directory / "files.log")
    return sum("notifications/cancelled" in json.dumps(json.loads(line)) for line in lines)


async def test_fifty_calls_at_once_each_get_their_own_answer(path: str) -> None:
    answers: dict[int, str] = {}

    async def one(client: Client, number: int) -> None:
        answers[number] = (await client.call("files_echo", {"number": number}, flatten=True))["output"]

    with anyio.fail_after(PATIENCE):
        async with Client(path) as client, anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(one, client, number)

    assert {number: json.loads(answer)["number"] for number, answer in answers.items()} == dict(
        zip(range(50), range(50), strict=True)
    )


async def test_a_cancelled_call_is_cancelled_at_the_server(path: str, launcher: Launcher) -> None:
    before = cancellations(launcher)
    with anyio.fail_after(PATIENCE):
        async with Client(path) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "files_sleep", {"seconds": 60})
            while not (await client.server("files"))["pending"]:
                pass
            tasks.cancel_scope.cancel()
    until(lambda: cancellations(launcher) > before)


async def test_outcomes_are_types(path: str) -> None:
    with anyio.fail_after(PATIENCE):
        async with Client(path) as client:
            with pytest.raises(ServerDied) as died:
                await client.call("frail_crash")
            with pytest.raises(TimedOut) as late:
                await client.call("files_sleep", {"seconds": 60}, timeout=0.1)
            with pytest.raises(UnknownTool):
                await client.call("files_nothing")

    assert (died.value.data["outcome"], late.value.data["outcome"]) == ("unknown", "timed_out")


async def test_progress_and_news_arrive(path: str) -> None:
    heard: list[Progress] = []
    with anyio.fail_after(PATIENCE):
        async with Client(path) as client, client.events(["transition"]) as events:
            await client.call("files_progress", {"steps": 3}, on_progress=heard.append)
            await client.request("servers/restart", {"server": "files"})
            event = await anext(events)
            while event["server"] != "files":
                event = await anext(events)

    assert [progress.progress for progress in heard] == [1, 2, 3]
    assert event["before"] == "ready"


def test_the_sync_client_does_the_same_one_by_one(path: str, tmp_path: Path) -> None:
    heard: list[Progress] = []
    with SyncClient(path) as client:
        assert {server["name"] for server in client.servers()} == {"files", "frail"}
        assert client.server("files")["state"] == "connected"
        assert "files_echo" in {tool["name"] for tool in client.tools(server="files")}
        client.call("files_progress", {"steps": 2}, on_progress=heard.append)
        with pytest.raises(UnknownServer):
            client.server("nobody")
        with client.events(["transition"]) as events:
            client.request("servers/restart", {"server": "files"})
            assert next(events)["kind"] == "transition"

    assert [progress.total for progress in heard] == [2, 2]
