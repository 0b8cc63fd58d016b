"""Who is next, where many wait for one: the client that was served longest ago, and its oldest item.

So whoever comes once waits for one item of a client that floods the place and not for all of them. Where no
more may wait, the one who waits for most gives way to one who waits for less.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

_MANY = 1024
"""How many clients are remembered before those that wait for nothing are forgotten."""

Item = TypeVar("Item", bound=Hashable)


class Turns(Generic[Item]):
    """Waiting items, in a queue for each client."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, dict[Item, None]] = {}
        self._served: dict[Hashable, int] = {}
        """Which turn each client had last; forgotten when nobody waits any more."""
        self._turn = 0
        self.count = 0

    def __iter__(self) -> Iterator[Item]:
        return (item for queue in self._queues.values() for item in queue)

    def add(self, client: Hashable, item: Item) -> None:
        self._queues.setdefault(client, {})[item] = None
        self.count += 1

    def serve(self, client: Hashable) -> None:
        """Take note that a client was served just now, in its turn or before anybody waited."""
        if len(self._served) >= _MANY:
            self._served = {who: turn for who, turn in self._served.items() if who in self._queues}
        self._turn += 1
        self._served[client] = self._turn

    def take(self) -> Item:
        """The next item."""
        client = min(self._queues, key=self._last_turn)
        item = next(iter(self._queues[client]))
        self.serve(client)
        self.remove(client, item)
        return item

    def remove(self, client: Hashable, item: Item) -> None:
        """Take an item out wherever it stands, if it is there."""
        queue = self._queues.get(client, {})
        if item not in queue:
            return
        del queue[item]
        self.count -= 1
        if not queue:
            del self._queues[client]
        if not self.count:
            self._served.clear()

    def clear(self) -> list[Item]:
        """Take out everything."""
        items = list(self)
        self._queues.clear()
        self._served.clear()
        self.count = 0
        return items

    def gives_way(self, newcomer: Hashable) -> Item | None:
        """The latest item of whoever waits for most; None when the newcomer would wait for as many."""
        greediest = max(self._queues.values(), key=len, default=None)
        if greediest is None or len(greediest) <= len(self._queues.get(newcomer, ())) + 1:
            return None
        return next(reversed(greediest))

    def _last_turn(self, client: Hashable) -> int:
        return self._served.get(client, 0)
