"""Where things stand in the text of a configuration file: every object, its members and their commas.

For whoever changes a text without disturbing the rest of it. The text must be one that `document.parse`
accepts; nothing is validated again, and lists are passed over as a whole.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEXEME = re.compile(
    r"""(?P<comment>//[^\r\n]*|/\*.*?\*/)|"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s"\[\]{},:/]+""", re.DOTALL
)
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place: `text[start:end]` is what was written."""

    start: int
    end: int
    members: "tuple[Member, ...] | None" = None
    """Those of an object, in order; None for every other value."""

    def member(self, name: str) -> "Member | None":
        return next((each for each in self.members or () if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Member:
    """A key and its value in an object."""

    name: str
    start: int
    """Where the key begins."""
    value: Value
    comma: int | None
    """Where the comma after the value stands, if there is one."""

    @property
    def end(self) -> int:
        """The end of the value, and of its comma if there is one."""
        return self.value.end if self.comma is None else self.comma + 1


def outline(text: str) -> Value:
    """The value that the text holds, with the places of everything in it."""
    return _Walk(text).value()


@dataclass(frozen=True, slots=True)
class _Lexeme:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _lexemes(text: str) -> Iterator[_Lexeme]:
    for match in _LEXEME.finditer(text, len(_BOM) if text.startswith(_BOM) else 0):
        if match["comment"] is None:
            yield _Lexeme(match[0], match.start())
    yield _Lexeme("", len(text))


class _Walk:
    """One walk along the lexemes."""

    def __init__(self, text: str) -> None:
        self._ahead = _lexemes(text)
        self._next = next(self._ahead)

    def value(self) -> Value:
        first = self._take()
        match first.text:
            case "{":
                members = tuple(self._members())
                return Value(first.start, self._take().end, members)
            case "[":
                while self._next.text != "]":
                    self._skip()
                return Value(first.start, self._take().end)
            case _:
                return Value(first.start, first.end)

    def _members(self) -> Iterator[Member]:
        while self._next.text != "}":
            key = self._take()
            self._take()
            value = self.value()
            comma = self._take().start if self._next.text == "," else None
            yield Member(json.loads(key.text), key.start, value, comma)

    def _skip(self) -> None:
        """Pass over an item of a list, or the comma after it."""
        if self._next.text == ",":
            self._take()
        else:
            self.value()

    def _take(self) -> _Lexeme:
        taken, self._next = self._next, next(self._ahead, self._next)
        return taken
