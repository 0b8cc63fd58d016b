"""Reloads that overlap: a slow start delays nobody else, and what was wanted last is what comes."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from supervisor.core.phases import Ready, Starting
from supervisor.runtime import proctable
from supervisor.runtime.reload import Reloaded
from supervisor.runtime.stdio import Host
from tests.runtime.fleet_support import Asked
from tests.runtime.reload_support import Stage, entry
from tests.runtime.support import until

pytestmark = pytest.mark.usefixtures("nothing_left")

SLOW = entry("--slow-start", 30)


def processes() -> set[int]:
    return {found.pid for found in proctable.descendants(os.getpid())}


class Scene(Stage):
    """A fleet, and somebody who saves its file again and again without waiting for an end."""

    def __init__(self, directory: Path, host: Host) -> None:
        super().__init__(directory, host)
        self.gate = directory / "gate"
        """What holds a server or a call until it is there."""
        self.answers: list[Reloaded] = []
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def up(self, servers: dict[str, Any]) -> AsyncGenerator[None]:
        """Have these servers up; everything that is asked for inside is answered before the end."""
        self.write(servers)
        async with self.running():
            await self.reloader.reload()
            async with anyio.create_task_group() as self._tasks:
                yield

    async def save(self, servers: dict[str, Any]) -> None:
        """Save the file and have it read; somebody waits for the answer."""
        assert self._tasks is not None
        self.write(servers)
        current = self.reloader._next
        self._tasks.start_soon(self._ask)
        await current.begun.wait()

    def held(self, **keys: Any) -> dict[str, Any]:
        """An entry of a server whose start takes until the gate opens."""
        return entry("--hold-start", self.gate, **keys)

    def call(self) -> Asked:
        """A call that takes until the gate opens."""
        return Asked(self.fleet, "s_hold", arguments={"file": str(self.gate)})

    async def _ask(self) -> None:
        self.answers.append(await self.reloader.reload())

    def pid(self, name: str) -> int | None:
        return self.fleet.members[name].pid

    async def starting(self, name: str) -> None:
        await self.fleet.members[name].actor.reach(Starting)


@pytest.fixture
def scene(tmp_path: Path, host: Host) -> Scene:
    return Scene(tmp_path, host)


async def test_a_slow_start_delays_no_other_change(scene: Scene) -> None:
    async with scene.up({}):
        await scene.save({"slow": SLOW})
        await scene.starting("slow")
        await scene.save({"slow": SLOW, "quick": entry()})
        await until(lambda: "quick" in scene.fleet.members)
        await scene.fleet.members["quick"].actor.reach(Ready)
        assert scene.answers == []
        await scene.save({"quick": entry()})

    assert set(scene.fleet.members) == {"quick"}
    assert [answer.results for answer in scene.answers] == [
        {"slow": "ok"},
        {"quick": "ok", "slow": "ok"},
        {"slow": "ok"},
    ]


async def test_a_replacement_that_is_not_wanted_any_more_is_given_up_for_the_last(scene: Scene) -> None:
    async with scene.up({"s": entry()}):
        await scene.save({"s": SLOW})
        await until(lambda: len(processes()) == 2)
        await scene.save({"s": entry("--tools", 2)})

    assert scene.answers == [Reloaded({"s": "replace"}, {"s": "ok"}, ())] * 2
    assert scene.fleet.members["s"].spec == scene.reloader.loaded.servers["s"]


async def test_an_edit_that_is_taken_back_leaves_the_old_run_alone(scene: Scene) -> None:
    async with scene.up({"s": entry()}):
        before = scene.pid("s")
        await scene.save({"s": SLOW})
        await until(lambda: len(processes()) == 2)
        await scene.save({"s": entry()})
        await until(lambda: processes() == {before})

    assert [answer.plan["s"] for answer in scene.answers] == ["replace", "unchanged"]


async def test_a_retuned_start_goes_on(scene: Scene) -> None:
    async with scene.up({"s": entry()}):
        await scene.save({"s": scene.held()})
        await until(lambda: len(processes()) == 2)
        started = processes() - {scene.pid("s")}
        await scene.save({"s": scene.held(callTimeout=7)})
        scene.gate.touch()
        await until(lambda: len(scene.answers) == 2)
        assert {scene.pid("s")} == started

    assert scene.fleet.members["s"].desk.terms.call_timeout == 7


@pytest.mark.parametrize("tuned", [{}, {"callTimeout": 7}], ids=["unchanged", "retuned"])
async def test_what_is_wanted_then_not_then_again_is_started_once(
    scene: Scene, tuned: dict[str, Any]
) -> None:
    async with scene.up({}):
        await scene.save({"s": scene.held()})
        await scene.starting("s")
        change = scene.reloader._changes["s"]
        for servers in ({"s": SLOW}, {"s": scene.held(**tuned)}):
            scene.write(servers)
            change.want(scene.load().servers["s"], "add")
        member = scene.fleet.members["s"]
        scene.gate.touch()

    assert (member, member.actor.state.run) == (scene.fleet.members["s"], 1)
    assert member.spec == change.wanted
    assert scene.answers == [Reloaded({"s": "add"}, {"s": "ok"}, ())]


async def test_a_start_that_an_operator_ends_is_no_wait_for_ever(scene: Scene) -> None:
    async with scene.up({}):
        await scene.save({"s": SLOW})
        await scene.starting("s")
        await scene.fleet.stop_server("s")

    assert scene.answers[0].results["s"] != "ok"


async def test_a_server_that_an_operator_stops_while_it_is_replaced_stays_stopped(scene: Scene) -> None:
    async with scene.up({"s": entry()}):
        await scene.save({"s": scene.held()})
        await until(lambda: len(processes()) == 2)
        await scene.fleet.stop_server("s")
        scene.gate.touch()
        await until(lambda: scene.answers)
        await until(lambda: not processes())


async def test_an_exclusive_server_starts_when_its_predecessor_is_gone(scene: Scene) -> None:
    async with scene.up({"s": entry(exclusive=True)}):
        call = scene.call()
        before = processes()
        await scene.save({})
        await scene.save({"s": entry("--tools", 1, exclusive=True)})
        assert processes() == before
        assert call.reply.ends == []
        scene.gate.touch()
        await call.text()
        await until(lambda: scene.answers[1:])
        assert len(processes()) == 1
        assert processes() != before


async def test_a_call_between_two_exclusive_runs_waits_for_the_second(scene: Scene) -> None:
    async with scene.up({"s": entry(exclusive=True)}):
        held = scene.call()
        await scene.save({"s": entry("--log", os.devnull, exclusive=True)})
        await until(lambda: scene.fleet.members["s"].pid is None)
        call = Asked(scene.fleet, "s_echo", arguments={"text": "hello"})

        assert held.reply.ends == []
        scene.gate.touch()
        assert await call.text()


async def test_calls_that_wait_are_served_by_the_successor(scene: Scene) -> None:
    async with scene.up({"s": entry(maxConcurrency=1)}):
        calls = [scene.call() for _ in range(3)]
        await scene.save({"s": entry("--log", os.devnull, maxConcurrency=1)})
        scene.gate.touch()
        answers = [await call.end() for call in calls]

    assert all("content" in answer for answer in answers)


@pytest.mark.parametrize("successor", [entry(), entry(exclusive=True)], ids=["shared", "exclusive"])
async def test_calls_that_wait_for_a_start_wait_for_the_next_one(
    scene: Scene, successor: dict[str, Any]
) -> None:
    async with scene.up({}):
        await scene.save({"s": SLOW})
        await scene.starting("s")
        call = Asked(scene.fleet, "s_echo", arguments={"text": "hello"})
        await scene.save({"s": successor})
        assert await call.text()


async def test_calls_that_wait_fail_with_a_successor_that_fails(scene: Scene) -> None:
    async with scene.up({}):
        await scene.save({"s": SLOW})
        await scene.starting("s")
        call = Asked(scene.fleet, "s_echo", arguments={})
        await scene.save({"s": entry("--exit-at", "spawn")})
        assert "cannot call server s" in str(await call.end())


async def test_whoever_waits_for_one_server_does_not_wait_for_others(scene: Scene) -> None:
    async with scene.up({}):
        scene.write({"slow": SLOW, "quick": entry()})
        await scene.reloader.settle("quick")
        assert isinstance(scene.fleet.members["quick"].actor.state.phase, Ready)
        assert isinstance(scene.fleet.members["slow"].actor.state.phase, Starting)


async def test_a_value_that_is_a_secret_as_it_is_written_now_is_not_shown_any_more(scene: Scene) -> None:
    secret = scene.path.with_name("secret")
    secret.write_text("hunter2hunter2")
    said = ("--stderr", "key hunter2hunter2")
    async with scene.up({"s": entry(*said)}):
        member, before = scene.fleet.members["s"], scene.pid("s")
        await until(lambda: "key hunter2hunter2" in [line.text for line in member.log.tail(9)])

        await scene.save({"s": entry("--stderr", "key {file:secret}")})
        await until(lambda: scene.answers)

        assert (scene.answers[0].plan, scene.pid("s")) == ({"s": "retune"}, before)
        assert "key ***" in [line.text for line in member.log.tail(9)]
        assert member.redact("hunter2hunter2") == "***"


async def test_a_server_that_lags_behind_its_entry_is_named_until_it_does_not(scene: Scene) -> None:
    async with scene.up({"s": entry()}):
        await scene.save({"s": entry("--exit-at", "spawn")})
        await until(lambda: scene.answers)
        assert scene.reloader.behind["s"].endswith("; the old run stays")
        await scene.save({"s": entry()})
        assert scene.reloader.behind == {}
