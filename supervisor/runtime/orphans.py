"""Nothing that we started outlives its stop: the nets below the process group.

A server may fork, leave its group and its session, and lose its parent. Three nets catch what does:
we are the subreaper, so a lost descendant becomes our child instead of init's; every child carries a
token in its environment that names daemon, server and run, so it can be told whose it is; and a new daemon
looks for tokens of a dead one. What is found is killed by pidfd, with its start time checked.
"""

import contextlib
import ctypes
import hashlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import FrameType

import anyio

from supervisor.runtime import proctable
from supervisor.runtime.census import Census
from supervisor.runtime.process import signal_process
from supervisor.runtime.proctable import Entry

logger = logging.getLogger(__name__)

TOKEN_NAME = "MCP_SUPERVISOR_RUN"  # noqa: S105 - the name of a variable

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200
_QUIET_LOOKS = 2
_DOUBTFUL_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Token:
    """Which daemon, server and run a process belongs to, as it stands in its environment."""

    instance: str
    """Names the control socket: daemons that took turns on it share this."""
    daemon: str
    """Names one life of the daemon: its pid and start time."""
    serial: int
    """Names one run; no two runs of a daemon share it."""
    server: str

    def __str__(self) -> str:
        return f"{self.instance}:{self.daemon}:{self.serial}:{self.server}"


def instance_of(socket_path: str) -> str:
    """The name that daemons on the same control socket share."""
    return hashlib.sha256(os.path.realpath(socket_path).encode()).hexdigest()[:16]


def become_subreaper() -> bool:
    """Have lost descendants re-parented to us; tells whether the kernel agreed."""
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


class Orphans:
    """Finds and ends what escaped from the groups of our children."""

    def __init__(self, instance: str) -> None:
        me = proctable.entry(os.getpid())
        assert me is not None, "/proc must be mounted"
        self._instance = instance
        self._daemon = f"{me.pid}-{me.started}"
        self._serial = 0
        self.census = Census()
        self.leaders: set[int] = set()
        """The children that somebody else waits for; `reap` leaves them alone."""

    def token(self, server: str) -> Token:
        """A token for one run of a server."""
        self._serial += 1
        return Token(self._instance, self._daemon, self._serial, server)

    async def watch(self) -> None:
        """Reap adopted children as they die, until cancelled."""
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

        def ring(_number: int, _frame: FrameType | None) -> None:
            # This may run between any two instructions, so it does no more; uvloop cannot heed SIGCHLD.
            os.eventfd_write(bell, 1)

        before = signal.signal(signal.SIGCHLD, ring)
        try:
            while True:
                await anyio.wait_readable(bell)
                os.eventfd_read(bell)
                self.reap()
        finally:
            signal.signal(signal.SIGCHLD, before)
            os.close(bell)

    def reap(self) -> None:
        """Take the exit status of adopted children that have died, so that none stays a zombie."""
        for pid in proctable.children_of_ours():
            if pid not in self.leaders:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def below(self, leader: int) -> set[tuple[int, int]]:
        """Pid and start time of what is below a leader now, to be remembered in case it loses its token."""
        return {(found.pid, found.started) for found in proctable.descendants(leader)}

    async def sweep(self, token: Token, remembered: Iterable[tuple[int, int]] = ()) -> int:
        """Kill what is left of a run; returns how many processes that took.

        The run's own group must be empty already.
        """
        mine, known = str(token).encode(), set(remembered)

        async def left() -> tuple[list[Entry], bool]:
            marked, sure = await self.census.with_token(TOKEN_NAME.encode(), mine)
            seen = [found for pid, at in known if (found := _same(pid, at)) and found not in marked]
            return marked + seen, sure

        return await self._kill(left)

    async def sweep_all(self) -> int:
        """Kill every descendant that is left; for the very end."""

        async def left() -> tuple[list[Entry], bool]:
            return (await self.census.taken()).below(os.getpid()), True

        return await self._kill(left)

    async def _kill(self, left: Callable[[], Awaitable[tuple[list[Entry], bool]]]) -> int:
        killed: set[tuple[int, int]] = set()
        quiet = 0
        # A process may fork while we look, and cannot be told while it executes. So nothing must be found
        # twice in a row, more often when there is doubt, and what was killed must be seen gone.
        for _ in range(_ROUNDS):
            found, sure = await left()
            for process in found:
                signal_process(process.pid, process.started, signal.SIGKILL)
                killed.add((process.pid, process.started))
            self.reap()
            quiet = 0 if found or any(map(_exists, killed)) else quiet + 1
            if quiet >= (_QUIET_LOOKS if sure else _DOUBTFUL_LOOKS):
                break
            await anyio.sleep(0.002)
        return len(killed)

    async def end_leftovers(self, *, grace: float) -> int:
        """End what a daemon that died on our control socket has left: SIGTERM, `grace` seconds, SIGKILL."""
        found = self._leftovers()
        if not found:
            return 0
        logger.warning("ending %d processes that a dead daemon left behind", len(found))
        for process in found:
            signal_process(process.pid, process.started, signal.SIGTERM)
        with anyio.move_on_after(grace):
            while self._leftovers():  # noqa: ASYNC110 - the end of a stranger is no event of ours
                await anyio.sleep(0.02)
        for _ in range(_ROUNDS):
            if not (left := self._leftovers()):
                break
            for process in left:
                signal_process(process.pid, process.started, signal.SIGKILL)
            await anyio.sleep(0.002)
        return len(found)

    def _leftovers(self) -> list[Entry]:
        ours = f"{self._instance}:{self._daemon}:".encode()
        theirs = f"{self._instance}:".encode()
        return [
            found
            for found in proctable.everything()
            if not found.zombie
            and found.pid not in (1, os.getpid())
            and (token := proctable.environment_value(found.pid, TOKEN_NAME.encode())) is not None
            and token.startswith(theirs)
            and not token.startswith(ours)
        ]


def _same(pid: int, started: int) -> Entry | None:
    """The process with that pid, if it is alive and still the one that started then."""
    found = proctable.entry(pid)
    return found if found is not None and found.started == started and not found.zombie else None


def _exists(process: tuple[int, int]) -> bool:
    """Whether it is still there, dead or alive."""
    pid, started = process
    found = proctable.entry(pid)
    return found is not None and found.started == started
