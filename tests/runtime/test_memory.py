"""What is remembered survives a restart, and nothing that happens to the file is worse than forgetting."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from supervisor.runtime.memory import Memory, state_directory
from tests.runtime.support import PATIENCE


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"STATE_DIRECTORY": "/a:/b", "XDG_STATE_HOME": "/c", "HOME": "/d"}, "/a"),
        ({"XDG_STATE_HOME": "/c", "HOME": "/d"}, "/c/mcp-supervisor"),
        ({"HOME": "/d"}, "/d/.local/state/mcp-supervisor"),
    ],
)
def test_the_place_to_remember_is_the_first_that_is_given(environ: Mapping[str, str], directory: str) -> None:
    assert state_directory(environ) == Path(directory)


def test_without_a_home_there_is_no_place_to_remember() -> None:
    assert state_directory({}) is None


def test_what_was_remembered_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "memory.json"

    Memory(path).remember_no_probe("a")

    assert Memory(path).cannot_take_a_probe("a")
    assert not Memory(path).cannot_take_a_probe("b")


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    memory = Memory(path)
    memory.remember_no_probe("a")
    path.unlink()

    memory.remember_no_probe("a")

    assert not path.exists()


def test_facts_of_others_in_the_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"later": 1}))

    Memory(path).remember_no_probe("a")

    assert json.loads(path.read_text()) == {"later": 1, "noProbe": ["a"]}


def test_without_a_file_it_remembers_until_it_ends() -> None:
    memory = Memory(None)

    memory.remember_no_probe("a")

    assert memory.cannot_take_a_probe("a")


@pytest.mark.parametrize("content", ["", "not JSON", "[]", "7", '"text"', "null", "\ufeff{}"])
def test_a_file_that_makes_no_sense_is_forgotten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "memory.json"
    path.write_text(content)

    memory = Memory(path)
    memory.remember_no_probe("a")

    assert Memory(path).cannot_take_a_probe("a")


@pytest.mark.parametrize("fact", [7, None, "abc", {"a": 1}])
def test_a_fact_of_a_strange_shape_is_forgotten(tmp_path: Path, fact: object) -> None:
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"noProbe": fact}))

    memory = Memory(path)

    assert not memory.cannot_take_a_probe("a")
    memory.remember_no_probe("b")


def test_what_an_operator_switched_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"

    Memory(path).override("a", enabled=False)
    Memory(path).override("b", enabled=True)

    assert Memory(path).overrides == {"a": False, "b": True}


def test_what_an_operator_takes_back_is_forgotten_for_good(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    memory = Memory(path)
    memory.override("a", enabled=False)
    memory.override("b", enabled=True)

    memory.forget_override("a")

    assert memory.overrides == Memory(path).overrides == {"b": True}


def test_taking_back_what_was_never_said_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"

    Memory(path).forget_override("a")

    assert not path.exists()


def test_what_an_operator_switched_is_known_to_the_daemons_of_one_socket_only(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    one, other = Memory(path, instance="one"), Memory(path, instance="other")

    one.override("s", enabled=False)
    other.override("t", enabled=False)

    assert Memory(path, instance="one").overrides == {"s": False}
    assert Memory(path, instance="other").overrides == {"t": False}
    one.forget_override("s")
    assert json.loads(path.read_text()) == {"overrides": {"other": {"t": False}}}


def test_two_daemons_keep_what_the_other_has_written(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    one, other = Memory(path, instance="one"), Memory(path, instance="other")

    one.remember_no_probe("a")
    other.remember_no_probe("b")
    one.override("s", enabled=True)

    again = Memory(path, instance="one")
    assert again.cannot_take_a_probe("a")
    assert again.cannot_take_a_probe("b")
    assert one.cannot_take_a_probe("b")


def test_writers_in_many_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    write = "import sys; from pathlib import Path; from supervisor.runtime.memory import Memory\n"
    write += "for n in range(20): Memory(Path(sys.argv[1])).remember_no_probe(f'{sys.argv[2]}-{n}')"
    writers = [subprocess.Popen([sys.executable, "-c", write, path, name]) for name in "abc"]

    assert [writer.wait(PATIENCE) for writer in writers] == [0, 0, 0]

    known = Memory(path)
    assert all(known.cannot_take_a_probe(f"{name}-{n}") for name in "abc" for n in range(20))


def test_a_daemon_that_hangs_with_the_lock_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "memory.json"
    with path.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        Memory(path).remember_no_probe("a")

    assert Memory(path).cannot_take_a_probe("a")
    assert "is locked by another daemon that hangs" in caplog.text


@pytest.mark.parametrize("overrides", [{"s": False}, {"one": ["s"]}, {"one": {"s": "false"}}], ids=str)
def test_a_switch_of_a_strange_shape_is_forgotten(tmp_path: Path, overrides: object) -> None:
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"overrides": overrides}))

    assert Memory(path, instance="one").overrides == {}


def test_a_file_that_cannot_be_read_is_said_and_lived_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory(tmp_path)

    assert not memory.cannot_take_a_probe("a")
    assert "cannot read" in caplog.text


def test_a_file_that_cannot_be_written_is_said_and_lived_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    memory = Memory(tmp_path / "file" / "memory.json")
    before = memory.failed_writes

    memory.remember_no_probe("a")

    assert memory.cannot_take_a_probe("a")
    assert "cannot write" in caplog.text
    assert (before, memory.failed_writes) == (0, 1)


def test_a_list_of_tools_that_cannot_be_written_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = Memory(tmp_path / "file" / "memory.json")

    memory.tools.keep("a", [b"{}"])

    assert memory.failed_writes == 1


def test_the_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    Memory(tmp_path / "state" / "memory.json").remember_no_probe("a")

    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_what_bears_a_probe_after_all_is_remembered_as_such(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    memory = Memory(path)
    memory.remember_no_probe("a")
    memory.forget_no_probe("a")
    memory.forget_no_probe("a")

    assert not Memory(path).cannot_take_a_probe("a")
