"""A file is read only when nobody else could have written it."""

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest

from supervisor.runtime import trust
from supervisor.runtime.trust import MAX_BYTES, Unreadable, Untrusted, judge, read_trusted

ME = 1000
FILE, DIRECTORY, LINK = stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK


def status(mode: int, *, uid: int = ME, gid: int = ME) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


def complaint(mode: int, *, uid: int = ME, private: bool = False) -> str | None:
    return judge(Path("/a b"), status(mode, uid=uid), uid=ME, group_is_private=private)


@pytest.mark.parametrize(
    ("mode", "uid", "private"),
    [
        (FILE | 0o600, ME, False),
        (FILE | 0o644, 0, False),
        (FILE | 0o664, ME, True),
        (DIRECTORY | 0o775, ME, True),
        (DIRECTORY | 0o1777, 0, False),
        (LINK | 0o777, ME, False),
    ],
)
def test_what_only_root_or_we_can_change_is_trusted(mode: int, uid: int, private: bool) -> None:
    assert complaint(mode, uid=uid, private=private) is None


@pytest.mark.parametrize(
    ("mode", "uid", "words"),
    [
        (FILE | 0o600, 1001, "it belongs to user 1001; run chown 1000 '/a b'"),
        (LINK | 0o777, 1001, "it belongs to user 1001; run chown 1000 '/a b'"),
        (DIRECTORY | 0o1777, 1001, "it belongs to user 1001; run chown 1000 '/a b'"),
        (FILE | 0o666, ME, "everybody may write it; run chmod o-w '/a b'"),
        (FILE | 0o1646, ME, "everybody may write it; run chmod o-w '/a b'"),
        (DIRECTORY | 0o757, ME, "everybody may write it; run chmod o-w '/a b'"),
        (FILE | 0o660, ME, "group 1000 may write it; run chmod g-w '/a b'"),
        (DIRECTORY | 0o770, 0, "group 1000 may write it; run chmod g-w '/a b'"),
    ],
)
def test_what_others_can_change_is_not_trusted_and_the_remedy_is_named(
    mode: int, uid: int, words: str
) -> None:
    assert complaint(mode, uid=uid) == words


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "inner" / "mcp.json"
    path.parent.mkdir(mode=0o755)
    path.write_text("{}")
    path.chmod(0o600)
    return path


def test_the_content_is_read(file: Path) -> None:
    assert read_trusted(file) == b"{}"


def test_a_relative_path_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)

    assert read_trusted(Path("../inner/mcp.json")) == b"{}"


def test_a_file_that_others_can_write_is_refused(file: Path) -> None:
    file.chmod(0o602)

    with pytest.raises(Untrusted, match=rf"^cannot trust {file}: everybody may write it; run chmod o-w"):
        read_trusted(file)


def test_a_directory_that_others_can_write_is_refused(file: Path) -> None:
    file.parent.chmod(0o707)

    with pytest.raises(Untrusted, match=rf"^cannot trust {file.parent}: everybody may write it"):
        read_trusted(file)


def private_group() -> int | None:
    """Our primary group, if the system knows us and nobody else is in it."""
    users = [user for user in pwd.getpwall() if user.pw_uid == os.geteuid()]
    for user in users:
        members = {each.pw_name for each in pwd.getpwall() if each.pw_gid == user.pw_gid}
        if members | set(grp.getgrgid(user.pw_gid).gr_mem) == {user.pw_name}:
            return user.pw_gid
    return None


def test_the_owners_private_group_may_write(file: Path) -> None:
    group = private_group()
    if group is None:
        pytest.skip("this user has no private group")
    os.chown(file, -1, group)
    file.chmod(0o660)

    assert read_trusted(file) == b"{}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(("uid", "gid"), [(0, 54321), (0, 1), (54321, 0)])
def test_another_group_or_owner_is_refused(file: Path, uid: int, gid: int) -> None:
    os.chown(file, uid, gid)
    file.chmod(0o660)

    with pytest.raises(Untrusted):
        read_trusted(file)


def test_links_are_followed_as_in_a_config_map(file: Path) -> None:
    volume = file.parent.parent / "volume"
    (volume / "..2026").mkdir(parents=True)
    file.rename(volume / "..2026" / "mcp.json")
    (volume / "..data").symlink_to("..2026")
    (volume / "mcp.json").symlink_to("..data/mcp.json")
    (volume / "absolute").symlink_to(volume / "mcp.json")

    assert read_trusted(volume / "absolute") == b"{}"


def test_a_directory_between_two_links_is_judged_too(file: Path) -> None:
    loose = file.parent.parent / "loose"
    loose.mkdir()
    (loose / "hop").symlink_to(file)
    start = file.parent / "start"
    start.symlink_to(loose / "hop")
    loose.chmod(0o777)

    with pytest.raises(Untrusted, match=rf"^cannot trust {loose}: everybody may write it"):
        read_trusted(start)


def test_a_missing_file_is_missing(file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trusted(file.with_name("none"))


def test_a_fifo_is_refused_without_waiting_for_a_writer(file: Path) -> None:
    os.mkfifo(file.with_name("fifo"))

    with pytest.raises(Unreadable, match="not a regular file"):
        read_trusted(file.with_name("fifo"))


def test_a_directory_is_refused(file: Path) -> None:
    with pytest.raises(Unreadable, match="not a regular file"):
        read_trusted(file.parent)


def test_a_loop_of_links_is_refused(file: Path) -> None:
    file.with_name("loop").symlink_to("loop")

    with pytest.raises(Unreadable, match=r"^cannot read .*loop: Too many levels of symbolic links"):
        read_trusted(file.with_name("loop"))


def test_a_loop_of_links_that_appears_after_the_file_was_opened_is_refused(file: Path) -> None:
    file.with_name("loop").symlink_to("loop")

    with pytest.raises(Unreadable, match="too many symbolic links"):
        list(trust._way_to(file.with_name("loop")))


def swapped_when(event: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once this function of the system has done its work, have another file in place of this one."""
    function = getattr(os, event)

    def swap(*arguments: object, **options: object) -> object:
        done = function(*arguments, **options)
        file.rename(file.with_name("former"))
        file.write_text("swapped in")
        file.chmod(0o600)
        monkeypatch.setattr(os, event, function)
        return done

    monkeypatch.setattr(os, event, swap)


@pytest.mark.parametrize("event", ["open", "fstat", "stat"])
def test_what_is_swapped_in_after_the_opening_is_never_read(
    event: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped_when(event, file, monkeypatch)

    assert read_trusted(file) == b"{}"
    assert file.read_text() == "swapped in"


def test_a_file_that_others_can_write_is_refused_though_a_good_one_has_its_name_by_now(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o602)
    swapped_when("open", file, monkeypatch)

    with pytest.raises(Untrusted, match="everybody may write it"):
        read_trusted(file)


def test_the_size_is_bounded(file: Path) -> None:
    os.truncate(file, MAX_BYTES)
    assert len(read_trusted(file)) == MAX_BYTES

    os.truncate(file, MAX_BYTES + 1)
    with pytest.raises(Unreadable, match="larger than"):
        read_trusted(file)
