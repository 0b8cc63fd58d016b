"""The figures as a table for a person (which is also Markdown), and as JSON for a program."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench.chance import ANYWHERE
from bench.figures import FLOOR, Figure, shown

_SMALL = 0.1
"""Ratios below it are shown with their first digit, wherever that is."""


def table(figures: Sequence[Figure], contenders: Sequence[str]) -> str:
    """One row for each figure, one column for each contender, ratios to the floor beside the values."""
    body = [[figure.name, *(_cell(figure, name) for name in contenders)] for figure in figures]
    return aligned(["", *contenders], body)


def aligned(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Rows below a head, as wide as they need to be, the first column to the left."""
    widths = [max(len(row[column]) for row in [head, *body]) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_line(row, widths) for row in (head, rule, *body))


def _cell(figure: Figure, contender: str) -> str:
    value = figure.values.get(contender)
    if value is None:
        return "-"
    ratio = figure.ratio(contender)
    text = shown(value, figure.unit)
    if ratio is None or contender == FLOOR:
        return text
    return f"{text}  {ratio:.2f}x" if ratio >= _SMALL or not ratio else f"{text}  {ratio:.1g}x"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "| " + " | ".join([first, *rest]) + " |"


def as_json(figures: Sequence[Figure], machine: Mapping[str, str], notes: Sequence[str]) -> str:
    """Everything that the table says, in base units."""
    rows: list[dict[str, Any]] = [
        {
            "name": figure.name,
            "unit": figure.unit,
            "values": dict(figure.values),
            "between": {
                " over ".join(pair): ends for pair, ends in figure.between.items() if ends != ANYWHERE
            },
            "ratios": {name: figure.ratio(name) for name in figure.values},
        }
        for figure in figures
    ]
    whole = {"machine": dict(machine), "figures": rows, "notes": list(notes)}
    return json.dumps(whole, indent=2) + "\n"
