"""What large results took is given back to the kernel once they are gone."""

import os
from pathlib import Path

from tests.e2e.support import Daemon, Launcher, fake, until

MEBIBYTE = 1024 * 1024


def held(daemon: Daemon) -> int:
    """Bytes of memory that the daemon holds."""
    pages = Path(f"/proc/{daemon.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_large_results_leave_the_daemon_as_small_as_it_was(launcher: Launcher) -> None:
    daemon = launcher.start({"files": fake()})
    daemon.client.text("files_big", bytes=1_000_000)
    before = held(daemon)

    for _ in range(3):
        daemon.client.text("files_big", bytes=20_000_000)

    until(lambda: held(daemon) < before + 8 * MEBIBYTE)
