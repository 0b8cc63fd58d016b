"""Patterns on tool names: `*` stands for any run of characters, `!` before a pattern denies.

Nothing else is special, so a name with a dot, a bracket or a question mark means itself. Matching takes time
linear in the name: the pieces between the stars are sought from left to right, and nothing is tried twice.
"""

from collections.abc import Sequence


def matches(pattern: str, name: str) -> bool:
    """Whether `pattern`, in which `*` is the only wildcard, covers the whole of `name`."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    position, end = len(first), len(name) - len(last)
    if position > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in middle:
        found = name.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def allows(patterns: Sequence[str], name: str) -> bool:
    """Whether the last of `patterns` that matches `name` lets it through; no match means no."""
    for pattern in reversed(patterns):
        if matches(pattern.removeprefix("!"), name):
            return not pattern.startswith("!")
    return False
