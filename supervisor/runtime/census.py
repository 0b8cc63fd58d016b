"""What is left of a dead child, learned from `/proc` at the least cost.

The kernel hands what loses its parent to us before it says that the parent is dead. So when we have no
children but those that we started, nothing is left of one that died, and no more needs to be read than the
list of our main thread's children, as it is the one that adopts. When there are others, whose they are can
only be learned by a look at all processes. Fifty servers that end together ask together: a look that began
after a question answers it, whoever asked.
"""

import os

import anyio.lowlevel

from supervisor.runtime import proctable
from supervisor.runtime.proctable import Entry


class Snapshot:
    """The living processes of one moment."""

    def __init__(self, entries: list[Entry]) -> None:
        self._by_group: dict[int, list[Entry]] = {}
        self._by_parent: dict[int, list[Entry]] = {}
        for found in entries:
            self._by_parent.setdefault(found.parent, []).append(found)
            if not found.zombie:
                self._by_group.setdefault(found.group, []).append(found)

    def group(self, number: int) -> list[Entry]:
        """The members of a process group."""
        return self._by_group.get(number, [])

    def below(self, root: int) -> list[Entry]:
        """The descendants of a process."""
        tree: list[Entry] = []
        todo = [root]
        while todo:
            for found in self._by_parent.get(todo.pop(), ()):
                todo.append(found.pid)
                if not found.zombie:
                    tree.append(found)
        return tree


class Census:
    """Takes snapshots, and remembers the tokens of those it has seen."""

    def __init__(self, *, adopts: bool = False) -> None:
        self._adopts = adopts
        """Whether the kernel hands us what our children leave behind."""
        self.leaders: dict[int, int] = {}
        """The children that we started and have not reaped, and a moment before each."""
        self.expected: list[int] = []
        """For each that is just being started, a moment before it."""
        self.forsaken: set[int] = set()
        """Children that we started and let go before the kernel did."""
        self._looks = 0
        self._latest = Snapshot([])
        self._tokens: dict[tuple[int, int], bytes | None] = {}

    def strays(self) -> list[int]:
        """Our children that we did not start, the dead ones included."""
        # One that another thread is just starting is no leader yet, and no stray.
        mine = proctable.children_of_the_main_thread()
        return [pid for pid in mine if pid not in self.leaders]

    def nothing_is_left(self) -> bool:
        """Whether it is certain that no dead child has left anything behind."""
        return self._adopts and not self.strays()

    async def taken(self) -> Snapshot:
        """A snapshot that was taken after this was called."""
        asked = self._looks
        await anyio.lowlevel.checkpoint()
        if self._looks == asked:
            self._look()
        return self._latest

    def _look(self) -> None:
        entries = list(proctable.everything())
        living = {(found.pid, found.started) for found in entries}
        self._tokens = {key: token for key, token in self._tokens.items() if key in living}
        self._latest = Snapshot(entries)
        self._looks += 1

    async def tokens(self, name: bytes) -> dict[Entry, bytes | None]:
        """Our living descendants, and the value that each was started with for a variable.

        None where it was unset; empty where nothing is known, as of one that is just executing.
        """
        return {found: self._token(found, name) for found in (await self.taken()).below(os.getpid())}

    def _token(self, process: Entry, name: bytes) -> bytes | None:
        """What a process was started with; read once, as it does not change but by exec."""
        key = (process.pid, process.started)
        token = self._tokens.get(key)
        if not token:
            token = proctable.value_in(proctable.environment(process.pid), name)
            self._tokens[key] = token
        return token
