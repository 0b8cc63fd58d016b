r"""Halves of characters: escapes such as `\ud83d` without their other half.

A text that JavaScript cut in the middle of a character has one at its end, and `JSON.stringify` writes it as
it is. No strict reader of JSON takes it.
"""

import re

_ANY = rb"[0-9a-fA-F]{2}"
# It begins with what few places have, so the others are passed over quickly.
_SURROGATE = re.compile(rb"\\u[dD](?:[89abAB]%b(?P<pair>\\u[dD][c-fC-F]%b)?|[c-fC-F]%b)" % (_ANY, _ANY, _ANY))
_ESCAPE = len(rb"\ud83d")
_SIGN = rb"\ufffd"
_MOST = 20_000
"""Surrogates in one text; in one that has more, no half is looked for."""


def without_halves(text: bytes) -> bytes:
    """The JSON text with the sign for an unreadable character in place of each half of one."""
    if text.find(b"\\") < 0:
        return text
    parts: list[bytes] = []
    done = 0
    for count, found in enumerate(_SURROGATE.finditer(text)):
        if count == _MOST:
            return text
        half = found.start()
        if found["pair"] is not None:
            half += _ESCAPE  # what looks like the first half is text if its backslash is
        if _begins_escape(text, found.start()) == (found["pair"] is None):
            parts += text[done:half], _SIGN
            done = half + _ESCAPE
    return b"".join((*parts, text[done:])) if parts else text


def _begins_escape(text: bytes, at: int) -> bool:
    """Whether the backslash there is not itself escaped: it is the first, third, ... of its row."""
    reach = 64
    while True:
        before = text[max(at - reach, 0) : at]
        row = len(before) - len(before.rstrip(b"\\"))
        if row < len(before) or reach >= at:
            return row % 2 == 0
        reach *= 4
