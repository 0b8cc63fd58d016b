"""What one server has to offer: its tools, from its run or from memory, and whether they may be called now.

A server that sleeps keeps its tools listed: while it is stopped because nobody used it, while it waits for
a call, and while it starts for one. A lazy server that was seen before, by this daemon or an earlier one,
needs not be started to be listed; its shelf is then marked as remembered until a run has listed it again.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec

from supervisor.core.catalog import Parsed, Shelf, Steps, done, parse_tools
from supervisor.core.phases import Phase
from supervisor.core.plan import fingerprint
from supervisor.core.servers import BadServer, ServerSpec
from supervisor.core.view import keeps_its_tools
from supervisor.logs import about
from supervisor.runtime.knowntools import KnownTools
from supervisor.runtime.pieces import in_pieces

logger = logging.getLogger(__name__)


class Offering:
    """The tools of one server."""

    def __init__(self, spec: ServerSpec | BadServer, known: KnownTools, redact: Callable[[str], str]) -> None:
        self._spec, self._known, self._redact = spec, known, redact
        self._offered = False
        self.shelf: Shelf | None = self._recalled()
        """What it listed last; kept when it is gone, to tell a lost tool from one that never was."""

    @property
    def prefix(self) -> str:
        """How the public names of its tools begin."""
        spec = self._spec
        given = spec.entry.prefix if isinstance(spec, ServerSpec) else None
        return spec.name if given is None else given

    @property
    def offer(self) -> Shelf | None:
        """What may be called now."""
        return self.shelf if self._offered else None

    @property
    def remembered(self) -> bool:
        """Whether its tools are known from an earlier daemon, and were not listed since."""
        return self.shelf is not None and self.shelf.remembered

    def moved(self, before: Phase, after: Phase) -> bool:
        """Take note of the server's new phase; tells whether that adds or takes away tools."""
        offered, self._offered = self._offered, keeps_its_tools(before, after, offered=self._offered)
        return self.shelf is not None and offered != self._offered

    async def listed(
        self, definitions: Sequence[msgspec.Raw], arranging: Callable[[Shelf], Steps[object]]
    ) -> None:
        """Put what a run listed on the shelf, arranged, and remember it for the next daemon."""
        shelf = self._shelved(await in_pieces(parse_tools(definitions)))
        await in_pieces(arranging(shelf))
        self.shelf = self._as_wanted(shelf)
        for each in self.shelf.bad:
            name, tool = self._spec.name, each.name or f"tool {each.position}"
            logger.warning("%s: %s", name, self._redact(f"{each.reason} ({tool})"), extra=about(name))
        self._keep()

    def retune(self, spec: ServerSpec) -> None:
        """Show the same tools as a changed entry wants them shown."""
        self._spec = spec
        if self.shelf is not None:
            self.shelf = self._as_wanted(self.shelf)
            self._keep()

    @property
    def _only(self) -> tuple[str, ...] | None:
        return self._spec.entry.tools if isinstance(self._spec, ServerSpec) else None

    def _shelved(self, parsed: Parsed, *, remembered: bool = False) -> Shelf:
        tools, bad = parsed
        return Shelf(self._spec.name, self.prefix, tools, self._only, bad, remembered)

    def _as_wanted(self, shelf: Shelf) -> Shelf:
        """The shelf as its entry wants it shown now; the same one, and arranged, when nothing changed."""
        if (shelf.prefix, shelf.only) == (self.prefix, self._only):
            return shelf
        return replace(shelf, prefix=self.prefix, only=self._only)

    # What the next daemon shall know.

    @property
    def _fingerprint(self) -> str | None:
        """Under which name its tools are remembered; None when they are not."""
        spec = self._spec
        if isinstance(spec, BadServer) or spec.target is None or spec.entry.start != "lazy":
            return None
        return fingerprint(spec)

    def _recalled(self) -> Shelf | None:
        key = self._fingerprint
        definitions = None if key is None else self._known.recall(key)
        return None if definitions is None else self._shelved(done(parse_tools(definitions)), remembered=True)

    def _keep(self) -> None:
        key = self._fingerprint
        if key is None or self.shelf is None:
            return
        definitions = [tool.raw for tool in self.shelf.tools]
        if any(self._tells_a_secret(raw) for raw in definitions):
            said = "%s: its tools are not remembered, as they contain a secret"
            logger.warning(said, self._spec.name, extra=about(self._spec.name))
            self._known.forget(key)
        else:
            self._known.keep(key, definitions)

    def _tells_a_secret(self, definition: bytes) -> bool:
        """Whether a secret of its entry stands in a definition, in whatever way it is escaped."""
        return any(self._redact(text) != text for text in _strings(msgspec.json.decode(definition)))


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType] - mypy knows that it is Any
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield key
            yield from _strings(item)
