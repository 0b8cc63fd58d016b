"""Processes are begun before the rest of the daemon is loaded; their runs take them, or they are ended."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.core.phases import End
from supervisor.runtime import posixspawn, proctable
from supervisor.runtime.configfile import load
from supervisor.runtime.conversation import Dialect
from supervisor.runtime.headstart import Ground, prepared
from supervisor.runtime.memory import Memory
from supervisor.runtime.orphans import TOKEN_NAME, Orphans
from supervisor.runtime.process import Command
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.stdio import Host
from tests.runtime.support import ENVIRON, INSTANCE, PATIENCE, Stage, alive, bystander, fake, number_in, until

pytestmark = pytest.mark.usefixtures("nothing_left")

SLEEP = {"command": "sleep", "args": ["60"]}
NOWHERE = {"http": False}


@pytest.fixture
def spawner() -> Spawner:
    return Spawner()


@pytest.fixture
def ground(tmp_path: Path, orphans: Orphans, spawner: Spawner) -> Iterator[Any]:
    """Prepares the ground for these entries; whatever was begun is ended afterwards."""

    def prepare(servers: dict[str, Any], settings: dict[str, Any] = NOWHERE) -> Ground:
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers, "supervisor": settings}))
        return prepared(load((file,), ENVIRON), ENVIRON, orphans, spawner)

    yield prepare
    spawner.abandon()
    buried(orphans)


def buried(orphans: Orphans) -> list[int]:
    """Those that were killed, once they are gone."""
    pids = list(orphans.census.leaders)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return pids


async def begun(orphans: Orphans, count: int) -> list[str]:
    """The servers for which a process was begun, by the tokens of so many."""
    leaders = orphans.census.leaders
    await until(lambda: len(leaders) >= count)
    tokens = [proctable.environment_value(pid, TOKEN_NAME.encode()) for pid in list(leaders)]
    return sorted(token.decode().rpartition(":")[2] for token in tokens if token)


async def test_what_starts_with_the_daemon_is_begun_and_nothing_else(ground: Any, orphans: Orphans) -> None:
    entries = {
        "a": SLEEP,
        "b": SLEEP,
        "lazy": {**SLEEP, "start": "lazy"},
        "off": {**SLEEP, "enabled": False},
        "unset": {"command": "sleep", "args": ["${NO_SUCH_VARIABLE}"]},
        "remote": {"url": "http://127.0.0.1:1/mcp"},
        "wrong": {"command": 7},
    }

    assert ground(entries).clear

    assert await begun(orphans, 2) == ["a", "b"]


def test_nothing_is_begun_while_a_dead_daemon_has_left_something(
    ground: Any, spawner: Spawner, orphans: Orphans
) -> None:
    with bystander(["sleep", "60"], **{TOKEN_NAME: f"{INSTANCE}:1-1:1:s"}):
        assert not ground({"s": SLEEP}).clear

    assert not spawner.has_begun(orphans.token("s"))


def test_nothing_is_begun_when_the_port_is_taken(ground: Any, spawner: Spawner, orphans: Orphans) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert ground({"s": SLEEP}, {"http": {"port": taken.getsockname()[1]}}).clear

    assert not spawner.has_begun(orphans.token("s"))


async def test_a_free_port_is_in_nobodys_way(ground: Any, orphans: Orphans) -> None:
    ground({"s": SLEEP}, {"http": {"port": 0}})

    assert await begun(orphans, 1) == ["s"]


def test_an_older_c_library_gets_no_head_start(
    monkeypatch: pytest.MonkeyPatch, ground: Any, spawner: Spawner, orphans: Orphans
) -> None:
    monkeypatch.setattr(posixspawn, "_library", object())

    ground({"s": SLEEP})

    assert not spawner.has_begun(orphans.token("s"))


def host_that_began(orphans: Orphans, spawner: Spawner, command: Command) -> Host:
    """A host on which a process was begun for the next run of `server`."""
    spawner.begin(orphans.promise("server").on(command), orphans.census)
    return Host(orphans, Memory(None), spawner)


async def test_a_run_takes_the_process_that_was_begun_for_it(orphans: Orphans, spawner: Spawner) -> None:
    host = host_that_began(orphans, spawner, Command(fake(), ENVIRON))
    pid = await until(lambda: next(iter(orphans.census.leaders), 0))

    stage = Stage(host, fake(), Dialect(), {})
    async with anyio.create_task_group() as tg:
        tg.start_soon(stage.live)
        await stage.opened()
        assert stage.pid == pid
        stage.run.close()

    assert stage.end is not None
    assert orphans.census.leaders == {}


async def test_a_run_that_is_stopped_before_it_has_its_process_ends_that(
    orphans: Orphans, spawner: Spawner
) -> None:
    host = host_that_began(orphans, spawner, Command(["sleep", "60"], ENVIRON))
    await until(lambda: orphans.census.leaders)
    stage = Stage(host, ["sleep", "60"], Dialect(), {})
    stage.run.close()

    with anyio.fail_after(PATIENCE):
        await stage.live()

    assert stage.end == End("killed by signal 15 (SIGTERM)", signal=15)
    assert orphans.census.leaders == {}


async def test_a_run_that_fails_before_it_has_its_process_ends_that_and_what_has_left_it(
    orphans: Orphans, spawner: Spawner, tmp_path: Path
) -> None:
    escape = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & exec sleep 60"
    host = host_that_began(orphans, spawner, Command(["sh", "-c", escape], ENVIRON))
    stray = await until(lambda: number_in(tmp_path / "pid"))
    stage = Stage(host, ["sh", "-c", escape], Dialect(), {})

    def fail(_event: object) -> None:
        raise RuntimeError("nobody thought of this")

    with anyio.fail_after(PATIENCE), pytest.raises(RuntimeError):
        await stage.run.live(fail)

    assert not alive(stray)
    orphans.reap()
    assert orphans.census.leaders == {}


async def test_a_process_that_could_not_be_begun_fails_its_run_as_ever(
    orphans: Orphans, spawner: Spawner
) -> None:
    host = host_that_began(orphans, spawner, Command(["no-such-command"], ENVIRON))
    stage = Stage(host, ["no-such-command"], Dialect(), {})

    await stage.live()

    assert stage.end is not None
    assert stage.end.hopeless


async def test_what_no_run_has_taken_is_killed_in_the_end(orphans: Orphans, spawner: Spawner) -> None:
    host_that_began(orphans, spawner, Command(["sleep", "60"], ENVIRON))
    await begun(orphans, 1)

    spawner.abandon()

    (pid,) = buried(orphans)
    assert not alive(pid)
