"""The catalog as it is now: built when somebody looks at it after a change, and news of it when it changed.

Fifty servers that come up together cost one catalog and not fifty. A tool that left the catalog with its
server is remembered, so that calling it says what happened instead of "unknown tool"; and so is one that was
left out, so that it stays refused.
"""

import time
from collections.abc import Callable, Iterable, Mapping

import anyio
import anyio.lowlevel

from supervisor.core.catalog import Catalog, LeftOut, Route, Shelf, Steps, build
from supervisor.core.generations import Generations
from supervisor.core.policy import Policy
from supervisor.runtime.bus import Bus, CatalogEvent

_COALESCE = 0.02
"""Seconds in which changes are gathered before they are told as one; at least."""
_SHARE = 20
"""A listing that took long to make is made seldom: after so many times as long again."""
_MOST_CAUSES = 20


class Listing:
    """All tools that can be called, under their public names."""

    def __init__(
        self,
        shelves: Callable[[], Iterable[Shelf]],
        remembered: Callable[[], Iterable[Shelf]],
        *,
        separator: str,
        policy: Policy,
    ) -> None:
        self._shelves, self._remembered = shelves, remembered
        self.separator = separator
        self.policy: Policy = policy
        self._generations = Generations()
        self._former: dict[str, Route] = {}
        self._formerly_left_out: dict[str, LeftOut] = {}
        self._outdated = False
        self.current: Mapping[str, Route] = {}
        """Where calls go, by public name; nothing while that may have changed and nobody has looked."""
        self._changed = anyio.Event()
        self._causes: list[str] = []
        self._took = 0.0
        """Seconds that the latest catalog took to make."""

    @property
    def generations(self) -> Generations:
        if self._outdated:
            self._outdated = False
            self._rebuild()
            self.current = {name: each.route for name, each in self._generations.catalog.by_name.items()}
        return self._generations

    def find(self, name: str) -> Route | None:
        """Where a call of that public name goes, when it is listed."""
        return self.catalog.route(name)

    @property
    def catalog(self) -> Catalog:
        return self.generations.catalog

    def former(self, name: str) -> Route | None:
        """Where a tool was that is no longer listed because its server cannot answer."""
        return self._former.get(name)

    def why_not(self, name: str) -> LeftOut | None:
        """The tool that would have this name, had its server, there or gone, not had it left out."""
        hidden = self.catalog.why_not(name)
        return self._formerly_left_out.get(name) if hidden is None and name not in self._former else hidden

    @property
    def former_names(self) -> tuple[str, ...]:
        """The names of all tools of servers that cannot answer now, listed or left out, in order."""
        present = self.catalog.by_name
        gone = self._former.keys() | self._formerly_left_out.keys()
        return tuple(sorted(gone - present.keys()))

    def changed(self, cause: str) -> None:
        """Take note that something may be different."""
        if len(self._causes) < _MOST_CAUSES:
            self._causes.append(cause)
        self._outdated, self.current = True, {}
        self._changed.set()

    def arranging(self, shelf: Shelf) -> Steps[object]:
        """Prepare what is on a shelf, so that the next catalog is quickly made."""
        return shelf.arranging(separator=self.separator, policy=self.policy)

    async def tell(self, bus: Bus) -> None:
        """Publish every change of the listing, until cancelled."""
        told = self.generations
        while True:
            await self._changed.wait()
            await anyio.sleep(max(_COALESCE, _SHARE * self._took))
            self._changed = anyio.Event()
            causes, self._causes = tuple(self._causes), []
            present = self.generations
            await anyio.lowlevel.checkpoint()  # a large listing takes its time, and so does what is new in it
            if (event := _news(told, present, causes)) is not None:
                bus.publish(event)
            told = present

    def _rebuild(self) -> None:
        began = time.perf_counter()
        catalog = build(self._shelves(), separator=self.separator, policy=self.policy)
        self._generations = self._generations.after(catalog)
        gone = [shelf.arrange(separator=self.separator, policy=self.policy) for shelf in self._remembered()]
        self._former = {offer.public_name: offer.route for each in gone for offer in each.offers}
        self._formerly_left_out = {
            entry.public_name: entry for each in gone for entry in each.left_out if entry.public_name
        }
        self._took = time.perf_counter() - began


def _news(told: Generations, present: Generations, causes: tuple[str, ...]) -> CatalogEvent | None:
    """What to tell those who know `told`; None when they would see the same again."""
    difference = present.since(told.number)
    if difference is None:
        return CatalogEvent(time.time(), present.number, causes, (), ())
    changed = tuple(each.public_name for each in difference.changed)
    if not changed and not difference.removed:
        return None
    return CatalogEvent(time.time(), present.number, causes, changed, difference.removed)
