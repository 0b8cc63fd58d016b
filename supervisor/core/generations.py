"""How the catalog changes: its present generation, and what a client missed that saw an earlier one.

A generation is another one only if the bytes of the listing changed. What is remembered of the past is
bounded, in steps and in bytes.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from supervisor.core.catalog import EMPTY, Catalog, Listed, Select

HISTORY = 64
HISTORY_BYTES = 16 * 1024 * 1024
"""How many generations back a difference can be told, if what they replaced is no more than that."""


class Difference(msgspec.Struct, frozen=True):
    """What turns an earlier listing into the present one."""

    changed: tuple[Listed, ...]
    """New or altered, by public name."""
    removed: tuple[str, ...]


class _Step(msgspec.Struct, frozen=True):
    """One change of the catalog."""

    before: Mapping[str, Listed | None]
    """What each name that it touched stood for before; None for a new one."""
    size: int
    """Bytes of those definitions."""


class Generations(msgspec.Struct, frozen=True):
    """The present catalog, its number, and enough of the past to tell a difference.

    A number means something only within one life of the daemon: a client that reconnects asks for everything.
    """

    catalog: Catalog = EMPTY
    number: int = 1
    steps: tuple[_Step, ...] = ()
    """Latest last."""

    def after(self, catalog: Catalog) -> "Generations":
        """With `catalog` as the present one; a new generation only if the bytes of the listing changed."""
        if catalog.listing() == self.catalog.listing():
            return msgspec.structs.replace(self, catalog=catalog)
        step = _step(self.catalog.by_name, catalog.by_name)
        return Generations(catalog, self.number + 1, _within_bounds((*self.steps, step)))

    def since(self, number: int, select: Select | None = None) -> Difference | None:
        """What changed after generation `number`, for a client that saw what `select` wants.

        None when that can no longer be told: too long ago, or never.
        """
        missed = self.number - number
        if not 0 <= missed <= len(self.steps):
            return None
        before: dict[str, Listed | None] = {}
        for step in reversed(self.steps[len(self.steps) - missed :]):
            before |= step.before
        changed: list[Listed] = []
        removed: list[str] = []
        for name in sorted(before):
            was, now = (_seen(entry, select) for entry in (before[name], self.catalog.by_name.get(name)))
            if was is not None and now is None:
                removed.append(name)
            elif now is not None and (was is None or was.raw != now.raw):
                changed.append(now)
        return Difference(tuple(changed), tuple(removed))


def _step(before: Mapping[str, Listed], after: Mapping[str, Listed]) -> _Step:
    gone: dict[str, Listed | None] = {name: entry for name, entry in before.items() if name not in after}
    for name, entry in after.items():
        was = before.get(name)
        if was is None or was.raw != entry.raw:
            gone[name] = was
    return _Step(MappingProxyType(gone), sum(len(entry.raw) for entry in gone.values() if entry is not None))


def _within_bounds(steps: tuple[_Step, ...]) -> tuple[_Step, ...]:
    """The latest steps, as many as are remembered."""
    steps, size = steps[-HISTORY:], 0
    for kept, step in enumerate(reversed(steps)):
        size += step.size
        if size > HISTORY_BYTES:
            return steps[len(steps) - kept :]
    return steps


def _seen(entry: Listed | None, select: Select | None) -> Listed | None:
    return entry if entry is not None and (select is None or select(entry)) else None
