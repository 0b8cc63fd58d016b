"""What is wrong in the files when they are read again stays as it was good last."""

import json
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from supervisor.core.servers import Loaded
from supervisor.errors import BadConfig
from supervisor.runtime.configfile import load
from supervisor.runtime.stdio import Host
from tests.runtime.fleet_support import Asked
from tests.runtime.reload_support import Stage, entry
from tests.runtime.support import ENVIRON, until

pytestmark = pytest.mark.usefixtures("nothing_left")

AGENT = "---\nname: a\ntools: [s_*]\n---\n"


@pytest.fixture
def stage(tmp_path: Path, host: Host) -> Stage:
    return Stage(tmp_path, host)


async def test_a_wrong_setting_stays_as_it_was_while_the_rest_of_the_file_applies(stage: Stage) -> None:
    stage.write({"s": entry()}, policy="confirm", toolSeparator="__", defaults={"callTimeout": 5})
    async with stage.running():
        await stage.reloader.reload()
        stage.write({"s": entry(), "t": entry()}, policy="confrim", toolSeparator="-", defaults=5)

        done = await stage.reloader.reload()

    assert (stage.fleet.listing.policy, stage.fleet.listing.separator) == ("confirm", "-")
    assert done.plan == {"s": "unchanged", "t": "add"}
    assert stage.fleet.members["t"].desk.terms.call_timeout == 5
    assert [problem.endswith("; what was good last stays in force") for problem in done.problems] == [
        True
    ] * 2


async def test_a_server_whose_entry_is_wrong_now_says_that_it_runs_as_before(stage: Stage) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        before = stage.fleet.members["s"].pid
        stage.write({"s": entry(callTimeout="5")})

        done = await stage.reloader.reload()

        shown = stage.fleet.detail("s")
        assert (done.plan, shown.pid) == ({"s": "unchanged"}, before)
        assert shown.behind is not None
        assert "mcpServers.s.callTimeout" in shown.behind
        assert shown.behind.endswith("; its last good entry stays in force")
        stage.write({"s": entry()})
        await stage.reloader.reload()
        assert stage.fleet.summary("s").behind is None


async def test_a_server_whose_replacement_failed_says_so_itself(stage: Stage) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        stage.write({"s": entry("--exit-at", "spawn")})
        await stage.reloader.reload()

        assert (stage.fleet.summary("s").behind or "").endswith("; the old run stays")


async def test_a_secret_that_changes_beside_a_wrong_entry_reaches_its_last_good_one(stage: Stage) -> None:
    secret = stage.path.with_name("secret")
    secret.write_text("one")
    stage.write({"s": entry(env={"T": "{file:secret}"})})
    async with stage.running():
        await stage.reloader.reload()
        secret.write_text("two")
        stage.write({"s": entry(env={"T": "{file:secret}"}, callTimeout="5")})

        assert (await stage.reloader.reload()).results == {"s": "ok"}


async def test_calls_on_a_run_that_was_replaced_are_counted_until_they_end(stage: Stage) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        gate = stage.path.with_name("gate")
        call = Asked(stage.fleet, "s_hold", arguments={"file": str(gate)})
        stage.write({"s": entry("--tools", 2)})
        await stage.reloader.reload()

        assert stage.fleet.summary("s").draining == 1
        gate.touch()
        await call.text()
        await until(lambda: stage.fleet.summary("s").draining == 0)


@pytest.mark.parametrize("text", [b"---\nname: a\ntools: [\n---\n", b"\xff", b"---\nname: b\n"], ids=repr)
async def test_the_agents_of_a_file_that_cannot_be_read_stay(stage: Stage, text: bytes) -> None:
    front_matter = stage.path.with_name("AGENTS.md")
    front_matter.write_text(AGENT)
    async with stage.running():
        await stage.reloader.reload()
        front_matter.write_bytes(text)

        done = await stage.reloader.reload()

        assert list(stage.fleet.agents) == ["a"]
        assert all("its last good agents stay" in problem for problem in done.problems)
        assert done.problems
        front_matter.write_text("")
        assert (await stage.reloader.reload()).problems == ()
        assert stage.fleet.agents == {}


async def test_a_place_for_agents_that_is_wrong_now_stays_where_it_was(stage: Stage) -> None:
    stage.path.with_name("team.md").write_text(AGENT)
    stage.write({}, agentsFile="team.md")
    async with stage.running():
        await stage.reloader.reload()
        stage.write({}, agentsFile=5)

        await stage.reloader.reload()

    assert list(stage.fleet.agents) == ["a"]


async def test_what_is_wrong_is_a_failed_reload_and_is_logged_when_it_is_new(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = entry(enabled=False), {"command": 5}
    async with stage.running():
        for servers in ({"a": bad, "odd": {**good, "arg": 1}}, {"a": bad, "b": bad}, {"a": good}, {"a": bad}):
            stage.write(servers)
            await stage.reloader.reload()

    assert [event.ok for event in stage.events] == [False, False, True, False]
    assert not any(event.refused for event in stage.events)
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("config: ")]
    paths = [message.split(": ")[2] for message in said]
    assert paths == [
        "mcpServers.a.command",
        "mcpServers.odd.arg",
        "mcpServers.b.command",
        "mcpServers.a.command",
    ]
    assert str(stage.path) in said[0]


class ManyPlaces(Stage):
    """A fleet whose configuration is the first file that is there, as without `--config`."""

    @override
    def load(self, last: Loaded | None = None) -> Loaded:
        places = [self.path.with_name("first.json"), self.path]
        return load([place for place in places if place.exists()][:1] or places, ENVIRON, last=last)


async def test_a_file_that_is_gone_is_not_replaced_by_one_at_another_place(
    tmp_path: Path, host: Host
) -> None:
    stage, first = ManyPlaces(tmp_path, host), tmp_path / "first.json"
    stage.write({"other": entry(enabled=False)})
    first.write_text(json.dumps({"mcpServers": {"s": entry(enabled=False)}}))
    async with stage.running():
        await stage.reloader.reload()
        hidden = first.rename(tmp_path / "first.json~")

        for _ in range(2):
            with pytest.raises(BadConfig, match=r"first\.json: is gone; put it back"):
                await stage.reloader.reload()
            assert list(stage.fleet.members) == ["s"]
            stage.write({"another": entry(enabled=False)})

        assert stage.reloader.seen.keys() >= {str(first)}
        hidden.rename(first)
        assert (await stage.reloader.reload()).plan == {"s": "unchanged"}
        assert stage.reloader.failure == ()


async def test_a_file_that_appears_at_a_better_place_is_taken(tmp_path: Path, host: Host) -> None:
    stage, first = ManyPlaces(tmp_path, host), tmp_path / "first.json"
    first.write_text(json.dumps({"mcpServers": {"s": entry(enabled=False)}}))
    async with stage.running():
        assert (await stage.reloader.reload()).plan == {"s": "add"}


@pytest.mark.parametrize("content", ["[]", '{"mcpServers": []}', '{"mcp": {"servers": 5}}'])
async def test_a_list_of_servers_that_cannot_be_read_is_no_wish_to_have_none(
    stage: Stage, content: str
) -> None:
    stage.write({"s": entry()})
    async with stage.running():
        await stage.reloader.reload()
        stage.path.write_text(content)

        with pytest.raises(BadConfig, match="must be an object, not"):
            await stage.reloader.reload()

        assert list(stage.fleet.members) == ["s"]


@pytest.mark.parametrize("wrong", [{"policy": "confrim"}, {"defaults": {"tools": 5}}], ids=str)
async def test_a_guard_that_never_was_good_lets_no_server_in(stage: Stage, wrong: dict[str, Any]) -> None:
    stage.path.unlink()
    stage.reloader.loaded = stage.load()
    stage.write({"s": entry()}, **wrong)
    async with stage.running():
        with pytest.raises(BadConfig, match=next(iter(wrong))):
            await stage.reloader.reload()

    assert stage.fleet.members == {}
