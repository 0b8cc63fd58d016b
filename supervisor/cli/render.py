"""Tables, colours and durations for a person's terminal.

Everything that goes through `table` is escaped there, so a server's words cannot act on the terminal.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from supervisor.core.printable import one_line

GAP = "  "
NARROWEST = 40
ELLIPSIS = "…"
MINUTE, HOUR, DAY = 60, 3600, 86400

RED, GREEN, YELLOW, DIM = "31", "32", "33", "2"
"""Colours by the number that a terminal knows them by."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    most: int = 1000
    """The widest it may be; the last column takes what the others leave."""
    colours: Mapping[str, str] = field(default_factory=dict[str, str])
    """The colours of the words that have one."""


def screen_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return max(shutil.get_terminal_size((80, 24)).columns, NARROWEST)


def coloured() -> bool:
    """Whether stdout is a terminal whose user wants colour."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def paint(text: str, colour: str | None) -> str:
    """The text in a colour, or as it is."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """Lines of at most `width` cells, the titles first."""
    safe = [[one_line(cell) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    widths = _widths(columns, [titles, *safe], width)
    return [_line(row, columns, widths) for row in (titles, *safe)]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    natural = [
        min(column.most, max(cells(row[index]) for row in rows)) for index, column in enumerate(columns[:-1])
    ]
    left = width - sum(natural) - len(GAP) * len(natural)
    return [*natural, max(left, 1)]


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    parts: list[str] = []
    for text, column, width in zip(texts, columns, widths, strict=True):
        shown = fit(text, width)
        padding = " " * (width - cells(shown))
        shown = paint(shown, column.colours.get(text))
        parts.append(padding + shown if column.right else shown + padding)
    return GAP.join(parts).rstrip()


def fit(text: str, width: int) -> str:
    """The text cut to `width` cells, with a mark where something is missing."""
    if cells(text) <= width:
        return text
    kept = text[: width - 1]
    while cells(kept) > width - 1:
        kept = kept[:-1]
    return kept.rstrip() + ELLIPSIS


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def duration(seconds: float) -> str:
    """`3 s`, `4 min`, `2 h 10 min`, `3 d`."""
    whole = max(int(seconds), 0)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        hours, minutes = divmod(whole // MINUTE, 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{whole // DAY} d"
