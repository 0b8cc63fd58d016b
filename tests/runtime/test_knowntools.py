"""Tools of lazy servers outlive the daemon, and nothing done to their files is worse than forgetting."""

import os
from pathlib import Path

import msgspec
import pytest

from supervisor.runtime import knowntools
from supervisor.runtime.knowntools import KnownTools, replace_file

ECHO, SLEEP = b'{"name":"echo", "inputSchema":{}}', b'{"name":"sleep","inputSchema":{}}'


def recalled(directory: Path | None, fingerprint: str = "a") -> list[bytes] | None:
    found = KnownTools(directory).recall(fingerprint)
    return None if found is None else list(map(bytes, found))


def test_what_was_kept_is_known_after_a_restart_byte_for_byte(tmp_path: Path) -> None:
    KnownTools(tmp_path / "tools").keep("a", [ECHO, msgspec.Raw(SLEEP)])

    assert recalled(tmp_path / "tools") == [ECHO, SLEEP]
    assert recalled(tmp_path / "tools", "b") is None


def test_that_a_server_has_no_tools_is_known_too(tmp_path: Path) -> None:
    KnownTools(tmp_path).keep("a", [])

    assert recalled(tmp_path) == []


def test_files_and_their_directory_are_for_their_owner_alone(tmp_path: Path) -> None:
    KnownTools(tmp_path / "tools").keep("a", [ECHO])

    (kept,) = (tmp_path / "tools").iterdir()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    known = KnownTools(tmp_path)
    known.keep("a", [ECHO])
    written = (tmp_path / "a.json").stat().st_ino

    known.keep("a", [ECHO])

    assert (tmp_path / "a.json").stat().st_ino == written


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"tools":7}', b'{"tools":' + b"[" * 5000, b"\xff"])
def test_a_broken_file_is_said_once_and_ignored(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").write_bytes(content)

    assert recalled(tmp_path) is None
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        f"cannot use {tmp_path / 'a.json'}"
    ]


def test_a_file_that_cannot_be_read_is_said_and_lived_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").mkdir()

    assert recalled(tmp_path) is None
    assert "cannot use" in caplog.text


def test_a_file_that_cannot_be_written_is_said_and_lived_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()

    KnownTools(tmp_path / "file").keep("a", [ECHO])

    assert "cannot write" in caplog.text


def test_a_list_that_is_too_large_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowntools, "MOST_BYTES", 64)
    known = KnownTools(tmp_path)
    known.keep("a", [ECHO])

    known.keep("a", [ECHO, SLEEP])

    assert recalled(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_of_too_many_lists_the_one_used_longest_ago_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowntools, "MOST_FILES", 2)
    known = KnownTools(tmp_path)
    for age, name in ((20, "a"), (10, "b")):
        known.keep(name, [ECHO])
        os.utime(tmp_path / f"{name}.json", (age, age))
    known.recall("a")

    known.keep("c", [ECHO])

    assert [recalled(tmp_path, name) is None for name in "abc"] == [False, True, False]


def test_what_is_forgotten_may_never_have_been_known(tmp_path: Path) -> None:
    known = KnownTools(tmp_path)
    known.keep("a", [ECHO])

    known.forget("a")
    known.forget("b")

    assert recalled(tmp_path) is None


def test_without_a_directory_nothing_is_kept() -> None:
    known = KnownTools(None)

    known.keep("a", [ECHO])
    known.forget("a")

    assert known.recall("a") is None


def test_what_cannot_take_its_place_is_not_left_behind(tmp_path: Path) -> None:
    taken = tmp_path / "state.json"
    taken.mkdir()

    with pytest.raises(IsADirectoryError):
        replace_file(taken, b"{}")

    assert list(tmp_path.iterdir()) == [taken]
