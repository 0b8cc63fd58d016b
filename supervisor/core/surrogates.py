r"""Halves of characters: escapes such as `\ud83d` without their other half.

A text that JavaScript cut in the middle of a character has one at its end, and `JSON.stringify` writes it as
it is. No strict reader of JSON takes it.
"""

import re

_HEX = rb"[0-9a-fA-F]{2}"
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB]%b\\u[dD][c-fC-F]%b"  # both halves
    rb"|(\\u[dD][89a-fA-F]%b)"  # one half
    rb"|\\." % (_HEX, _HEX, _HEX),
    re.DOTALL,
)
_REPLACEMENT = rb"\ufffd"


def without_halves(text: bytes) -> bytes:
    """The JSON text with the sign for an unreadable character in place of each half of one."""
    if rb"\u" not in text:
        return text
    return _ESCAPES.sub(lambda found: _REPLACEMENT if found[1] else found[0], text)
