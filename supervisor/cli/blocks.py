"""Fitting what there is to say into the lines of a screen: the most important keeps its lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.cli.render import ELLIPSIS, fit

SHORTENED = "(shortened to fit the screen; `| less` or --json shows all)"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together."""

    lines: Sequence[str]
    rank: int = 0
    """The lower, the sooner it gets lines of a screen that has not enough for all."""
    least: int = 1
    """The fewest lines in which it says anything; where there is no room for them, it is left out."""
    title: int = 0
    """How many lines stand before what is quoted, of which the end counts; 0 where the beginning does."""


def arranged(blocks: Sequence[Block], *, height: int | None, width: int) -> list[str]:
    """The lines of all blocks, in their order; not more than `height`, where there is one."""
    whole = [line for block in blocks for line in block.lines]
    if height is None or len(whole) <= height:
        return whole
    shares = _shares(blocks, height - 1)
    shown = (_cut(block, share, width) for block, share in zip(blocks, shares, strict=True))
    return [*(line for lines in shown for line in lines), SHORTENED]


def _shares(blocks: Sequence[Block], room: int) -> list[int]:
    """How many lines each block gets: first what it needs, then what it has, both by rank."""
    shares = [0] * len(blocks)
    by_rank = sorted(range(len(blocks)), key=lambda index: blocks[index].rank)
    for index in by_rank:
        needed = min(blocks[index].least, len(blocks[index].lines))
        if needed <= room:
            shares[index], room = needed, room - needed
    for index in by_rank:
        if shares[index]:
            more = min(len(blocks[index].lines) - shares[index], room)
            shares[index], room = shares[index] + more, room - more
    return shares


def _cut(block: Block, share: int, width: int) -> list[str]:
    lines = list(block.lines)
    if share in (0, len(lines)):
        return lines[:share]
    if block.title:
        return [*lines[: block.title], *lines[block.title - share :]]
    return [*lines[: share - 1], fit(lines[share - 1] + ELLIPSIS, width)]
