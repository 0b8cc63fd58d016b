"""Changing configuration files on a real file system."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.core.edit import AlreadyThere
from supervisor.errors import BadConfig, SupervisorError, UnknownServer
from supervisor.runtime.configfile import load
from supervisor.runtime.editing import add, remove

TEXT = '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "a", "env": {"KEY": "s3cret"}}\n  }\n}\n'
ENTRY = {"command": "b", "env": {"TOKEN": "hidden"}}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def names(path: Path) -> list[str]:
    text = "".join(line for line in path.read_text().splitlines() if "//" not in line)
    return list(json.loads(text)["mcpServers"])


def test_a_server_is_added_and_the_difference_shown_without_secrets(config: Path) -> None:
    edited = add(config, {"b": ENTRY})

    assert names(config) == ["a", "b"]
    assert '"TOKEN": "hidden"' in config.read_text()
    assert edited.path == config
    assert edited.difference == (
        f"--- {config}\n+++ {config}\n@@ -1,6 +1,7 @@\n {{\n   // mine\n"
        '   "mcpServers": {\n'
        '-    "a": {"command": "a", "env": {"KEY": "***"}}\n'
        '+    "a": {"command": "a", "env": {"KEY": "***"}},\n'
        '+    "b": {"command": "b", "env": {"TOKEN": "***"}}\n'
        "   }\n }\n"
    )


def test_a_server_is_removed(config: Path) -> None:
    add(config, {"b": ENTRY})

    edited = remove(config, "b")

    assert config.read_text() == TEXT
    assert '-    "b": {"command": "b", "env": {"TOKEN": "***"}}\n' in edited.difference


def test_a_dry_run_only_shows_the_difference(config: Path) -> None:
    edited = add(config, {"b": ENTRY}, dry_run=True)

    assert '+    "b"' in edited.difference
    assert config.read_text() == TEXT


def test_a_file_that_is_not_there_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mcp.json"

    add(path, {"a": {"command": "a"}})

    assert names(path) == ["a"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_is_replaced_as_a_whole_with_its_mode_and_nothing_is_left_beside_it(config: Path) -> None:
    before = config.stat()
    with config.open() as reader:
        add(config, {"b": ENTRY})
        assert reader.read() == TEXT

    after = config.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listdir(config.parent) == ["mcp.json"]  # noqa: PTH208 - hidden files too


def test_a_link_stays_a_link(config: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("mcp.json")

    add(link, {"b": ENTRY})

    assert link.readlink() == Path("mcp.json")
    assert names(config) == ["a", "b"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_group_of_the_file_is_kept(config: Path) -> None:
    os.chown(config, 0, 12345)

    add(config, {"b": ENTRY})

    assert config.stat().st_gid == 12345


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"command": 5}, "mcpServers.b.command: must be a string, not a number"),
        ({"url": "ftp://x"}, "mcpServers.b.url: must be an address"),
        ({}, 'needs "command"'),
    ],
)
def test_what_check_would_refuse_is_refused(config: Path, entry: dict[str, object], reason: str) -> None:
    with pytest.raises(BadConfig, match=reason):
        add(config, {"b": entry})

    assert config.read_text() == TEXT


def test_what_was_wrong_before_does_not_stop_an_edit(config: Path) -> None:
    config.write_text('{"mcpServers": {"bad": {"command": 5}}}')

    add(config, {"b": {"command": "b"}})
    remove(config, "bad")

    assert names(config) == ["b"]


def test_of_several_servers_all_are_added_or_none(config: Path) -> None:
    with pytest.raises(AlreadyThere):
        add(config, {"b": ENTRY, "a": ENTRY})

    assert config.read_text() == TEXT


def test_a_server_that_is_not_there_cannot_be_removed(config: Path) -> None:
    with pytest.raises(UnknownServer, match="it has: a"):
        remove(config, "zzz")


@pytest.mark.parametrize("content", ["\ufeff", "// mine\n", "\ufeff/* mine */\n"])
def test_a_file_without_a_document_is_added_to_and_keeps_its_comments(config: Path, content: str) -> None:
    config.write_text(content)

    add(config, {"b": ENTRY})

    assert ("mine" in config.read_text()) is ("mine" in content)
    assert list(load([config], {}).servers) == ["b"]


@pytest.mark.parametrize("change", [lambda path: add(path, {"b": {}}), lambda path: remove(path, "b")])
def test_a_change_that_fails_creates_no_directory(tmp_path: Path, change: Callable[[Path], object]) -> None:
    with pytest.raises(SupervisorError, match="cannot"):
        change(tmp_path / "new" / "mcp.json")

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("change", [lambda path: add(path, {"b": ENTRY}), lambda path: remove(path, "b")])
@pytest.mark.parametrize(("content", "place"), [("{\n,", "line 2, column 1"), ("[]", "must be an object")])
def test_what_is_wrong_with_a_file_is_said_with_its_name(
    config: Path, change: Callable[[Path], object], content: str, place: str
) -> None:
    config.write_text(content)

    with pytest.raises(BadConfig, match=f"cannot edit {config}: .*{place}"):
        change(config)


@pytest.mark.parametrize("content", [b"\xff", b"{"])
def test_a_file_that_cannot_be_understood_is_left_alone(config: Path, content: bytes) -> None:
    config.write_bytes(content)

    with pytest.raises(BadConfig, match="cannot"):
        add(config, {"b": ENTRY})

    assert config.read_bytes() == content


def test_a_file_that_others_may_write_is_not_touched(config: Path) -> None:
    config.chmod(0o666)

    with pytest.raises(BadConfig, match="everybody may write it"):
        add(config, {"b": ENTRY})


def test_a_place_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(BadConfig, match=r"cannot write .*: (Not a directory|File exists)"):
        add(tmp_path / "file" / "mcp.json", {"b": ENTRY})


def test_a_directory_in_its_place_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").mkdir()

    with pytest.raises(BadConfig, match="not a regular file"):
        add(tmp_path / "mcp.json", {"b": ENTRY})

    assert os.listdir(tmp_path) == ["mcp.json"]  # noqa: PTH208 - hidden files too
