"""Tables, colours and durations for a person's terminal.

Everything that goes through `table` is escaped there, so a server's words cannot act on the terminal.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from supervisor.core.printable import one_line

GAP = "  "
NARROWEST = 40
NO_TERMINAL = os.terminal_size((80, 24))
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
    return max(_from_environment("COLUMNS") or _terminal().columns, NARROWEST)


def screen_height() -> int:
    """Lines of the terminal; 24 where there is none."""
    return _from_environment("LINES") or _terminal().lines


def _from_environment(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _terminal() -> os.terminal_size:
    # What shutil does, without the archive formats that it imports first.
    try:
        found = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return NO_TERMINAL
    return found if all(found) else NO_TERMINAL


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


def wrap(text: str, width: int, *, first: str, rest: str) -> list[str]:
    """The text in lines of at most `width` cells, broken between words where that is possible.

    The first line begins with `first` and all others with `rest`.
    """
    lines: list[str] = []
    line, begun = first, False
    for word in text.split():
        left, space = word, " " if begun else ""
        while cells(line + space + left) > width:
            if not begun:
                head = _head(left, width - cells(line))
                line, left = line + head, left[len(head) :]
            lines.append(line)
            line, begun, space = rest, False, ""
        if left:
            line, begun = line + space + left, True
    return [*lines, line] if begun else lines


def _head(text: str, width: int) -> str:
    """As much of the beginning as fits into so many cells, but something."""
    end = min(len(text), max(width, 1))
    while end > 1 and cells(text[:end]) > width:
        end -= 1
    return text[:end]


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


def relative(seconds: float) -> str:
    """`in 3 s` or `3 s ago`."""
    return f"in {duration(seconds)}" if seconds > 0 else f"{duration(-seconds)} ago"


def moment(at: float) -> str:
    """A time of the wall clock, as it is here."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def latency(seconds: float) -> str:
    """`850 us`, `1.2 ms`, `45 ms`, `1.3 s`: six cells for all that is below a thousand seconds."""
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            number = seconds / size
            return f"{number:.1f} {unit}" if unit == "ms" and number < 9.95 else f"{number:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:.0f} s"


def size(number: float) -> str:
    """Bytes, as `512 B`, `14 MB`, `1.2 GB`."""
    for unit in ("B", "kB", "MB"):
        if number < 999.5:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def rate(number: float) -> str:
    """How often in a second: `0`, `4.2`, `1234`."""
    return f"{number:.1f}" if 0 < number < 99.95 else f"{number:.0f}"
