"""Watching configuration files as people, editors and Kubernetes change them."""

import json
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.core.servers import Loaded
from supervisor.runtime import watch
from supervisor.runtime.bus import Bus, News, ReloadEvent
from supervisor.runtime.configfile import config_paths, config_places, load
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.reload import Reloader
from supervisor.runtime.stdio import Host
from supervisor.runtime.watch import Watcher, entries_of
from tests import files
from tests.runtime.support import PATIENCE, in_a_subprocess, until


class Stage:
    """A watcher over a fleet of disabled servers: which ones there are tells what was read."""

    def __init__(self, host: Host, environ: dict[str, str]) -> None:
        self._environ = environ
        self.events: list[ReloadEvent] = []
        bus = Bus()
        bus.subscribe(self._hear)
        loaded = self._load()
        self._fleet = Fleet(loaded, host, environ, bus)
        self.reloader = Reloader(self._fleet, loaded, self._load, bus)
        self.watcher = Watcher(self.reloader, self._find, places=config_places((), environ))

    def _find(self) -> tuple[Path, ...]:
        return config_paths((), self._environ)

    def _load(self, last: Loaded | None = None) -> Loaded:
        return load(self._find(), self._environ, last=last)

    def _hear(self, news: News) -> None:
        if isinstance(news, ReloadEvent):
            self.events.append(news)

    @property
    def servers(self) -> set[str]:
        return set(self._fleet.members)

    async def has(self, *names: str) -> None:
        await until(lambda: self.servers == set(names))

    async def heard(self, count: int) -> None:
        await until(lambda: len(self.events) >= count)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        async with self._fleet.running(), anyio.create_task_group() as tg:
            tg.start_soon(self.reloader.run)
            tg.start_soon(self.watcher.run)
            with anyio.fail_after(PATIENCE * 2):
                yield
            tg.cancel_scope.cancel()


def off(*names: str, **keys: Any) -> str:
    """A configuration of servers that are not started."""
    return json.dumps({"mcpServers": {name: {"command": "x", "enabled": False, **keys} for name in names}})


def save(path: Path, text: str) -> None:
    """Save in place."""
    path.write_text(text)


def delete(path: Path) -> None:
    path.unlink()


def rename_over(path: Path, text: str) -> None:
    """Save as most editors do."""
    files.save(path, text)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "mcp.json"
    path.parent.mkdir()
    path.write_text(off("a"))
    return path


@pytest.fixture
async def stage(config: Path, host: Host) -> Stage:
    return Stage(host, {"MCP_CONFIG_PATH": str(config)})


async def test_saving_in_place_and_by_renaming_again_and_again_is_seen(stage: Stage, config: Path) -> None:
    async with stage.watching():
        save(config, off("b"))
        await stage.has("b")
        for name in ("c", "d", "e"):
            rename_over(config, off(name))
            await stage.has(name)


async def test_a_change_before_the_watch_began_is_seen(stage: Stage, config: Path) -> None:
    save(config, off("b"))

    async with stage.watching():
        await stage.has("b")


async def test_what_else_happens_in_the_directory_reloads_nothing(stage: Stage, config: Path) -> None:
    async with stage.watching():
        save(config.with_name("log"), "line")
        save(config, off("a"))
        rename_over(config, off("a"))
        save(config, off("b"))
        await stage.has("b")
        await stage.heard(1)

    assert len(stage.events) == 1


def swap(directory: Path, text: str) -> None:
    """Put another directory in the place of the one of the file."""
    fresh = directory.with_name("fresh")
    fresh.mkdir()
    save(fresh / "mcp.json", text)
    directory.rename(directory.with_name(f"old-{hash(text)}"))
    fresh.rename(directory)


def make_anew(directory: Path, text: str) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
    save(directory / "mcp.json", text)


@pytest.mark.parametrize("put", [swap, make_anew])
async def test_saves_are_told_of_in_a_directory_that_took_anothers_place(
    stage: Stage, config: Path, put: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_UNASKED", 3600.0)
    async with stage.watching():
        for number in range(2):
            put(config.parent, off(f"put-{number}"))
            await stage.has(f"put-{number}")
            save(config, off(f"saved-{number}"))
            await stage.has(f"saved-{number}")
            rename_over(config, off(f"renamed-{number}"))
            await stage.has(f"renamed-{number}")


async def test_a_file_that_vanishes_changes_nothing_and_its_return_is_seen(
    stage: Stage, config: Path
) -> None:
    async with stage.watching():
        delete(config)
        await stage.heard(1)
        assert stage.servers == {"a"}

        rename_over(config, off("b"))
        await stage.heard(2)

    assert stage.servers == {"b"}
    assert [event.ok for event in stage.events] == [False, True]


async def test_a_directory_that_vanishes_and_returns_is_watched_again(stage: Stage, config: Path) -> None:
    async with stage.watching():
        config.parent.rename(config.parent.with_name("old"))
        await stage.heard(1)
        config.parent.mkdir()
        save(config, off("b"))
        await stage.has("b")
        save(config, off("c"))
        await stage.has("c")


async def test_a_directory_that_appears_later_is_watched_from_then_on(tmp_path: Path, host: Host) -> None:
    config = tmp_path / "one" / "two" / "mcp.json"
    stage = Stage(host, {"MCP_CONFIG_PATH": str(config)})
    async with stage.watching():
        config.parent.parent.mkdir()
        config.parent.mkdir()
        save(config, off("a"))
        await stage.has("a")
        rename_over(config, off("b"))
        await stage.has("b")


async def test_the_swaps_of_a_kubernetes_volume_are_seen(tmp_path: Path, host: Host) -> None:
    def mount(version: str, text: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "mcp.json").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    mount("..1", off("a"))
    (tmp_path / "mcp.json").symlink_to("..data/mcp.json")
    stage = Stage(host, {"MCP_CONFIG_PATH": str(tmp_path / "mcp.json")})
    async with stage.watching():
        mount("..2", off("b"))
        await stage.has("b")
        mount("..3", off("c"))
        await stage.has("c")


async def test_what_the_configuration_refers_to_is_watched_as_soon_as_it_does(
    stage: Stage, config: Path, tmp_path: Path
) -> None:
    key, variables = tmp_path / "secrets" / "key", tmp_path / "env"
    entry = {"enabled": True, "args": [f"{{file:{key}}}"], "envFile": str(variables)}
    async with stage.watching():
        save(config, off("a", **entry))
        await stage.heard(1)
        key.parent.mkdir()
        key.write_text("1")
        await stage.heard(2)
        variables.write_text("A=b")
        await stage.heard(3)
        config.with_name("AGENTS.md").write_text("---\nname: z\ntools: ['*']\n---\n")
        await until(lambda: "z" in stage.reloader.loaded.agents)


@pytest.mark.skipif(
    any(place.exists() for place in config_places((), {})), reason="this machine has a configuration"
)
async def test_a_better_place_for_the_configuration_is_noticed(tmp_path: Path, host: Host) -> None:
    config = tmp_path / "mcp-supervisor" / "mcp.json"
    stage = Stage(host, {"XDG_CONFIG_HOME": str(tmp_path)})
    async with stage.watching():
        config.parent.mkdir()
        save(config, off("a"))
        await stage.has("a")

    assert set(stage.reloader.seen) == {str(config), str(config.with_name("AGENTS.md"))}


async def test_a_typo_is_reported_once_and_mended_by_the_next_save(stage: Stage, config: Path) -> None:
    async with stage.watching():
        rename_over(config, '{"mcpServers": {,}}')
        await stage.heard(1)
        assert stage.reloader.failure[0].startswith(f"{config}:1:17: ")
        assert stage.servers == {"a"}

        rename_over(config, off("b"))
        await stage.heard(2)

    assert stage.servers == {"b"}
    assert [event.ok for event in stage.events] == [False, True]


async def test_fifty_saves_end_in_the_last_state(stage: Stage, config: Path) -> None:
    async with stage.watching():
        for number in range(50):
            rename_over(config, off(f"s{number}"))
        await stage.has("s49")

    assert len(stage.events) < 10


async def test_the_wait_for_news_ends_when_cancelled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_UNASKED", 3600.0)
    async with stage.watching():
        await anyio.wait_all_tasks_blocked()


EXHAUSTED = """
import logging, resource, sys
from pathlib import Path
import anyio
from supervisor.runtime import watch
from supervisor.runtime.configfile import load

logging.basicConfig(stream=sys.stdout, format="%(message)s")
path = Path(sys.argv[1])

class Reader:
    asked, read = 0, load([path], {}).read

    @property
    def seen(self):
        self.asked += 1
        if self.asked == 2:
            spare.close()
        return self.read

    async def begin(self):
        self.read = load([path], {}).read
        print(path.read_text(), flush=True)
        if path.read_text() == "{ }":
            raise SystemExit
        path.write_text("{ }")

async def main():
    # No descriptor is left when the watch begins, and one when the first file is read.
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare.fileno() + 1, spare.fileno() + 1))
    await watch.Watcher(Reader(), lambda: [path], places=[]).run()

async def begin():
    global spare
    spare = path.open()
    await main()

watch._POLL = 0.01
path.write_text("{}")
anyio.run(begin)
"""


def test_where_the_system_tells_nothing_the_files_are_looked_at_and_that_is_said_once(tmp_path: Path) -> None:
    said = in_a_subprocess(EXHAUSTED, str(tmp_path / "mcp.json")).splitlines()

    assert said[0].startswith(
        "cannot be told of changes to the configuration, so it is looked at every 0.01 s"
    )
    assert said[1:] == ["{}", "{ }"]


def test_every_link_on_the_way_is_watched(tmp_path: Path) -> None:
    for name in ("real", "links", "far"):
        (tmp_path / name).mkdir()
    (tmp_path / "real" / "file").write_text("")
    (tmp_path / "links" / "folder").symlink_to("../real")
    (tmp_path / "far" / "file").symlink_to(tmp_path / "links" / "folder" / "file")

    found = entries_of([tmp_path / "far" / "file"])

    assert found == {
        (tmp_path / "far", "file"),
        (tmp_path / "links", "folder"),
        (tmp_path / "real", "file"),
    }


@pytest.mark.parametrize(
    ("target", "end"), [("loop", "loop"), ("file/below", "file"), ("gone/file", "gone"), ("..", "..")]
)
def test_a_way_that_leads_nowhere_is_watched_where_it_ends(tmp_path: Path, target: str, end: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")

    assert entries_of([tmp_path / target]) == {(tmp_path, end)}
