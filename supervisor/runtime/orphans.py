"""Nothing that we started outlives its stop: the nets below the process group.

A server may fork, leave its group and its session, and lose its parent. Three nets catch what does:
we are the subreaper, so a lost descendant becomes our child instead of init's; every child carries a
token in its environment that names daemon, server and run, so it can be told whose it is; and a new daemon
looks for tokens of a dead one. One that threw its token away is ended as soon as no server lives that could
have started it. What is found is killed with its whole group, as a process that forks and exits again and
again is never there any more when it is signalled alone.
"""

import contextlib
import ctypes
import hashlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Generator, Iterable
from types import FrameType

import anyio
from msgspec import Struct

from supervisor.runtime import proctable
from supervisor.runtime.census import Census
from supervisor.runtime.process import Command, signal_group, signal_process
from supervisor.runtime.proctable import Entry

logger = logging.getLogger(__name__)

TOKEN_NAME = "MCP_SUPERVISOR_RUN"  # noqa: S105 - the name of a variable

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200
_LOOKS_IN_A_HUNT = 100
_QUIET_LOOKS = 2
_DOUBTFUL_LOOKS = 20
_RESTLESS_LOOKS = 25
"""What dies may belong to another server, which must not hold up this one's end."""


class Token(Struct, frozen=True):
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

    def on(self, command: Command) -> Command:
        """The command with this token in its environment."""
        return Command(command.argv, {**command.env, TOKEN_NAME: str(self)}, command.cwd)


def instance_of(socket_path: str) -> str:
    """The name that daemons on the same control socket share."""
    return hashlib.sha256(os.path.realpath(socket_path).encode()).hexdigest()[:16]


def become_subreaper() -> bool:
    """Have lost descendants re-parented to us; tells whether the kernel agreed, and lists them for us."""
    agreed = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return bool(agreed) and proctable.lists_children()


class Orphans:
    """Finds and ends what escaped from the groups of our children."""

    def __init__(self, instance: str, *, adopts: bool) -> None:
        me = proctable.entry(os.getpid())
        assert me is not None, "/proc must be mounted"
        self._instance = instance
        self._daemon = f"{me.pid}-{me.started}"
        self._session = me.session
        self._serial = 0
        self._first: int | None = None
        """A moment before the first of all leaders."""
        self._promised: dict[str, Token] = {}
        """For the next run of a server."""
        self._reaped = 0
        """Adopted children that have died."""
        self.census = Census(adopts=adopts)
        self._leaders = self.census.leaders

    @contextlib.contextmanager
    def leading(self, pid: int, *, since: int) -> Generator[None]:
        """A child that somebody else waits for, until then: `reap` leaves it alone.

        Neither it nor what it starts has started before `since`, a moment of `proctable.clock`.
        """
        self._leaders[pid] = since
        self._first = since if self._first is None else min(self._first, since)
        try:
            yield
        finally:
            del self._leaders[pid]

    def token(self, server: str) -> Token:
        """A token for one run of a server."""
        return self._promised.pop(server, None) or self._new_token(server)

    def promise(self, server: str) -> Token:
        """The token that the next run of a server is going to have."""
        self._promised[server] = token = self._new_token(server)
        return token

    def _new_token(self, server: str) -> Token:
        self._serial += 1
        return Token(self._instance, self._daemon, self._serial, server)

    async def watch(self) -> None:
        """Reap adopted children as they die, until cancelled."""
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

        def ring(_number: int, _frame: FrameType | None) -> None:
            # This may run between any two instructions, so it does no more; uvloop cannot heed SIGCHLD.
            os.eventfd_write(bell, 1)

        before = signal.signal(signal.SIGCHLD, ring)
        self.reap()  # what died before we could hear of it
        try:
            while True:
                await anyio.wait_readable(bell)
                os.eventfd_read(bell)
                self.reap()
        finally:
            signal.signal(signal.SIGCHLD, before)
            os.close(bell)

    def reap(self) -> int:
        """Take the exit status of adopted children that have died; returns how many had."""
        died, forsaken = 0, self.census.forsaken
        for pid in (*self.census.strays(), *forsaken):
            try:
                gone = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                forsaken.discard(pid)
                continue
            died += gone
            if gone:
                forsaken.discard(pid)
        self._reaped += died
        return died

    def below(self, leader: int) -> set[tuple[int, int]]:
        """Pid and start time of what is below a leader now, to be remembered in case it loses its token."""
        return {(found.pid, found.started) for found in proctable.descendants(leader)}

    async def sweep(
        self, token: Token, *, leader: int | None = None, remembered: Iterable[tuple[int, int]] = ()
    ) -> int:
        """Kill what is left of the run of a dead leader; returns how many processes that took.

        The run's own group must be empty already.
        """
        if self.census.nothing_is_left():
            return 0
        mine, known, name = str(token).encode(), set(remembered), TOKEN_NAME.encode()

        def ours(stray: Entry) -> bool:
            if self._is_unowned(stray, leader):
                return True
            return not stray.zombie and proctable.environment_value(stray.pid, name) == mine

        async def left() -> tuple[list[Entry], bool]:
            tokens = await self.census.tokens(name)
            marked = [each for each, its in tokens.items() if its == mine or self._is_unowned(each, leader)]
            seen = [each for pid, at in known if (each := _same(pid, at)) and each not in marked]
            return marked + seen, b"" not in tokens.values()

        return await self._kill(left, ours)

    def _is_unowned(self, process: Entry, leader: int | None) -> bool:
        """Whether it was adopted, and none but dead leaders can have started it."""
        return (
            process.parent == os.getpid()
            and process.pid not in self._leaders
            and process.pid not in self.census.forsaken
            and process.session != self._session
            and self._first is not None
            and process.started >= self._first
            and not any(at <= process.started for at in self._sources(but=leader))
        )

    def _sources(self, *, but: int | None) -> list[int]:
        """A moment before each leader that lives, or is being started."""
        # Copied, as the thread that starts leaders writes there, too; and who is expected first: it is one of
        # the leaders before it is no longer expected.
        expected = list(self.census.expected)
        return expected + [at for pid, at in list(self._leaders.items()) if pid != but]

    async def sweep_all(self) -> int:
        """Kill every descendant that is left; for the very end."""

        async def left() -> tuple[list[Entry], bool]:
            return (await self.census.taken()).below(os.getpid()), True

        return await self._kill(left, lambda _stray: True)

    def kill_all(self) -> None:
        """Kill every descendant that is there now, without a loop; for a start that failed."""
        for process in proctable.descendants(os.getpid()):
            self._end(process)

    async def _kill(
        self, left: Callable[[], Awaitable[tuple[list[Entry], bool]]], ours: Callable[[Entry], bool]
    ) -> int:
        killed: set[tuple[int, int]] = set()
        quiet = 0
        # A process may fork while we look, and cannot be told while it executes. So nothing must be found
        # twice in a row, more often when there is doubt, what was killed must be seen gone, and nobody may
        # have died meanwhile: that may be one of those who are there only between two looks.
        reaped, restless = self._reaped, 0
        for _ in range(_ROUNDS):
            found, sure = await left()
            for process in found:
                self._end(process)
            now = {(process.pid, process.started) for process in found} | self._hunt(ours)
            killed |= now
            restless += self._reaped > reaped
            died, reaped = self._reaped > reaped and restless <= _RESTLESS_LOOKS, self._reaped
            quiet = 0 if now or died or any(map(_exists, killed)) else quiet + 1
            if quiet >= (_QUIET_LOOKS if sure else _DOUBTFUL_LOOKS):
                break
            await anyio.sleep(0.002)
        return len(killed)

    def _hunt(self, ours: Callable[[Entry], bool]) -> set[tuple[int, int]]:
        """Kill adopted children for as long as they keep dying, as only a quick look finds them."""
        killed: set[tuple[int, int]] = set()
        for _ in range(_LOOKS_IN_A_HUNT):
            for pid in reversed(self.census.strays()):  # the youngest is the one that lives
                stray = proctable.entry(pid)
                if stray is not None and ours(stray):
                    self._end(stray)
                    if not stray.zombie:
                        killed.add((stray.pid, stray.started))
            if not self.reap():
                break
        return killed

    def _end(self, process: Entry) -> None:
        """Kill a process and its group; nothing that we did not start is ever in the session of a stray."""
        if process.session != self._session:
            signal_group(process.group, signal.SIGKILL)
        signal_process(process.pid, process.started, signal.SIGKILL)

    async def end_leftovers(self, *, grace: float) -> int:
        """End what a daemon that died on our control socket has left: SIGTERM, `grace` seconds, SIGKILL."""
        found = self.leftovers()
        if not found:
            return 0
        logger.warning("ending %d processes that a dead daemon left behind", len(found))
        for process in found:
            signal_process(process.pid, process.started, signal.SIGTERM)
        with anyio.move_on_after(grace):
            while self.leftovers():  # noqa: ASYNC110 - the end of a stranger is no event of ours
                await anyio.sleep(0.02)
        for _ in range(_ROUNDS):
            if not (left := self.leftovers()):
                break
            for process in left:
                self._end(process)
            await anyio.sleep(0.002)
        return len(found)

    def leftovers(self) -> list[Entry]:
        """What a daemon that died on our control socket has left."""
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
