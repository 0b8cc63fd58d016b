r"""Halves of characters: escapes such as `\ud83d` without their other half.

A text that JavaScript cut in the middle of a character has one at its end, and `JSON.stringify` writes it as
it is. No strict reader of JSON takes it.
"""

import re

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F]"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F][0-9a-fA-F]"
_HALF = re.compile(rb"%b(?!%b)|(?<!%b)%b" % (_HIGH, _LOW, _HIGH, _LOW))
_BACKSLASH, _STAND_IN = b"\\\\", b"\x00"


def without_halves(text: bytes) -> bytes:
    """The JSON text with the sign for an unreadable character in place of each half of one."""
    # No JSON holds the byte that stands in. Without escaped backslashes, every backslash begins an escape.
    if text.find(rb"\u") < 0 or text.find(_STAND_IN) >= 0:
        return text
    mended, count = _HALF.subn(rb"\\ufffd", text.replace(_BACKSLASH, _STAND_IN))
    return mended.replace(_STAND_IN, _BACKSLASH) if count else text
