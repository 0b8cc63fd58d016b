"""The process table tells parents, groups and ends as the kernel has them."""

import os
import threading
from pathlib import Path

import pytest

from supervisor.runtime import proctable
from tests.runtime.support import bystander, children_of_ours

pytestmark = pytest.mark.usefixtures("nothing_left")

NOBODY = 2**22 + 1
"""Above the largest pid that Linux gives."""
FOREVER = ["sleep", "60"]
FAMILY = ["sh", "-c", "sleep 60 & sleep 60 & echo; wait"]


def wait_for_exit(pid: int) -> None:
    """Return when it is dead, and leave it unreaped."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_we_find_ourselves() -> None:
    found = proctable.entry(os.getpid())

    assert found is not None
    assert (found.parent, found.group, found.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert not found.zombie


def test_a_pid_that_nobody_has_is_no_process() -> None:
    assert proctable.entry(NOBODY) is None


@pytest.mark.parametrize(
    ("counters", "kills"),
    [("pgfault 7\noom_kill 3\n", 3), ("oom_kill 0\n", 0), ("oom_kill_other 5\n", None), (None, None)],
)
def test_kills_for_want_of_memory_are_counted_where_the_kernel_says_them(
    counters: str | None, kills: int | None, tmp_path: Path
) -> None:
    if counters is not None:
        (tmp_path / "vmstat").write_text(counters)

    assert proctable.memory_kills(str(tmp_path / "vmstat")) == kills


def test_a_command_name_cannot_forge_the_fields_behind_it(tmp_path: Path) -> None:
    disguise = tmp_path / "x) Z 1 1 ("
    disguise.symlink_to("/bin/sleep")

    with bystander([str(disguise), "60"]) as process:
        found = proctable.entry(process.pid)

        assert found is not None
        assert (found.parent, found.group, found.zombie) == (os.getpid(), process.pid, False)


def test_a_dead_child_that_nobody_reaped_is_a_zombie_and_no_member() -> None:
    with bystander(["true"]) as process:
        wait_for_exit(process.pid)

        found = proctable.entry(process.pid)

        assert found is not None
        assert found.zombie
        assert process.pid in children_of_ours()


def test_descendants_come_parents_first_and_without_the_root() -> None:
    with bystander(["sh", "-c", "sh -c 'sleep 60 & echo; wait' & wait"]) as root:
        assert root.stdout is not None
        root.stdout.readline()

        child, grandchild = proctable.descendants(root.pid)

        assert (child.parent, grandchild.parent) == (root.pid, child.pid)


def test_dead_descendants_are_left_out() -> None:
    with bystander(["true"]) as process:
        wait_for_exit(process.pid)

        assert process.pid not in [found.pid for found in proctable.descendants(os.getpid())]


def test_children_of_every_thread_of_ours_are_found() -> None:
    found: list[int] = []

    def start_one() -> None:
        with bystander(FOREVER) as process:
            found.extend(pid for pid in children_of_ours() if pid == process.pid)

    thread = threading.Thread(target=start_one)
    thread.start()
    thread.join()

    assert len(found) == 1


def test_nobody_has_no_children() -> None:
    assert proctable.children(NOBODY) == []
    assert proctable.descendants(NOBODY) == []


@pytest.mark.parametrize(
    ("env", "value"),
    [
        ({"TOKEN": "a:b"}, b"a:b"),
        ({"TOKEN": ""}, b""),
        ({"TOKEN": "x=y"}, b"x=y"),
        ({"TOKEN_2": "other", "MY_TOKEN": "another"}, None),
    ],
)
def test_a_variable_is_read_from_the_environment_of_another_process(
    env: dict[str, str], value: bytes | None
) -> None:
    with bystander(FAMILY, **env) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert proctable.environment_value(process.pid, b"TOKEN") == value


def test_nobody_has_no_environment() -> None:
    assert proctable.environment_value(NOBODY, b"PATH") is None


def test_who_started_later_has_the_later_start_time() -> None:
    us = proctable.entry(os.getpid())
    with bystander(FOREVER) as process:
        later = proctable.entry(process.pid)

        assert us is not None
        assert later is not None
        assert later.started > us.started


def test_the_clock_is_that_of_start_times() -> None:
    for _ in range(20):
        before = proctable.clock()
        with bystander(FOREVER) as process:
            found = proctable.entry(process.pid)

        assert found is not None
        assert before <= found.started <= proctable.clock()
