"""News of the fleet, to whoever wants to hear it.

Publishing is a plain call and never waits: a listener that cannot keep up has to queue or drop for itself.
"""

import logging
from collections.abc import Callable

import msgspec

logger = logging.getLogger(__name__)


class TransitionEvent(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="transition"):
    """A server changed its phase."""

    at: float
    """When, in seconds since 1970."""
    server: str
    """Which one."""
    before: str
    """The phase that it left."""
    phase: str
    """The phase that it came into."""
    state: str
    """The one word for that."""
    reason: str
    """Why, in words."""
    run: int
    """The number of its run."""


class CatalogEvent(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="catalog"):
    """The listing of tools changed."""

    at: float
    """When, in seconds since 1970."""
    generation: int
    """The number of the new listing."""
    causes: tuple[str, ...]
    """What happened, in words."""
    changed: tuple[str, ...]
    """Public names that are new or have another definition."""
    removed: tuple[str, ...]
    """Public names that are gone."""


class ReloadEvent(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="reload"):
    """The configuration was read again."""

    at: float
    """When, in seconds since 1970."""
    ok: bool
    """Whether everything was done."""
    plan: dict[str, str]
    """What was done to each server; empty when the files could not be used."""
    problems: tuple[str, ...]
    """What is wrong with the configuration."""
    refused: bool = False
    """Whether the files could not be used, so that nothing was changed."""


class LogEvent(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="log"):
    """A server wrote a line to its standard error."""

    at: float
    """When, in seconds since 1970."""
    server: str
    """Which one."""
    text: str
    """The line, without secrets."""


News = TransitionEvent | CatalogEvent | ReloadEvent | LogEvent
Listener = Callable[[News], None]

KINDS: dict[str, type[News]] = {
    "transition": TransitionEvent,
    "catalog": CatalogEvent,
    "reload": ReloadEvent,
    "log": LogEvent,
}


class Bus:
    """Passes news to every listener, in the order of their coming."""

    def __init__(self) -> None:
        self._listeners: dict[int, Listener] = {}
        self._readers: set[int] = set()
        self._last = 0

    def subscribe(self, listener: Listener, *, lines: bool = True) -> Callable[[], None]:
        """Hear everything from now on; call what is returned to hear no more.

        Whoever does not want servers' lines says so, and they are not made for it alone.
        """
        self._last = number = self._last + 1
        self._listeners[number] = listener
        if lines:
            self._readers.add(number)

        def leave() -> None:
            self._listeners.pop(number, None)
            self._readers.discard(number)

        return leave

    @property
    def heard(self) -> bool:
        """Whether anybody wants servers' lines, so that these many need not be made for nobody."""
        return bool(self._readers)

    def publish(self, news: News) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener(news)
            except Exception:  # the boundary: one bad listener costs itself, not the fleet
                logger.exception("a listener failed")
