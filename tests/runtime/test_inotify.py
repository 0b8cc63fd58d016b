"""The kernel tells of what happens in directories, and only then."""

import select
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from supervisor.runtime.inotify import Notifier
from tests.runtime.support import PATIENCE


def _save(directory: Path) -> None:
    (directory / "file").write_text("b")


def _replace(directory: Path) -> None:
    (directory / "other").rename(directory / "file")


def _remove(directory: Path) -> None:
    (directory / "file").unlink()


def _lock_out(directory: Path) -> None:
    (directory / "file").chmod(0o600)


def _move_it_all(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "watched"
    directory.mkdir()
    for name in ("file", "other"):
        (directory / name).write_text("a")
    return directory


@pytest.mark.parametrize("happen", [_save, _replace, _remove, _lock_out, _move_it_all])
async def test_it_tells_of(directory: Path, happen: Callable[[Path], None]) -> None:
    with closing(Notifier([(directory, "file")])) as notifier, anyio.fail_after(PATIENCE):
        happen(directory)

        await notifier.news()


async def test_what_was_told_is_not_told_again_and_reading_is_no_news(directory: Path) -> None:
    with closing(Notifier([(directory, "file")])) as notifier, anyio.fail_after(PATIENCE):
        _save(directory)
        await notifier.news()
        (directory / "file").read_text()

        # The kernel notes an event before the call that caused it returns.
        assert select.select([notifier._descriptor], [], [], 0) == ([], [], [])


def test_what_happens_to_another_name_does_not_matter(directory: Path) -> None:
    with closing(Notifier([(directory, "file")])) as notifier:
        (directory / "other").write_text("b")
        (directory / "file.tmp").write_text("b")
        assert not notifier._matter()

        _save(directory)
        assert notifier._matter()


async def test_a_directory_that_is_not_there_is_left_out(directory: Path) -> None:
    entries = [(directory / "none", "file"), (directory / "file", "file"), (directory, "file")]
    with closing(Notifier(entries)) as notifier:
        _save(directory)

        with anyio.fail_after(PATIENCE):
            await notifier.news()


def test_a_failure_leaves_no_descriptor_behind() -> None:
    before = len([*Path("/proc/self/fd").iterdir()])

    with pytest.raises(OSError, match="File name too long"):
        Notifier([(Path("x" * 5000), "file")])

    assert len([*Path("/proc/self/fd").iterdir()]) == before
