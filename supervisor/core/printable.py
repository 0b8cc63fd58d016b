r"""Text from strangers, made safe to show to a person.

A server's words may hold terminal escapes, carriage returns or marks that turn the reading direction.
Here they become visible escapes such as `\x1b`. Owns no stream and no width; never used on what programs
read, which gets JSON.
"""

import re

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTION_MARKS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = "\u200b\u2028\u2029\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_HALF_CHARACTERS = "\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROLS}{_DIRECTION_MARKS}{_INVISIBLE}{_HALF_CHARACTERS}]")
_UNSAFE_IN_LINE = re.compile(f"[\t\n{_UNSAFE.pattern[1:]}")


def paragraphs(text: str) -> str:
    """The text with its line breaks and tabs, everything else that could act on a terminal escaped."""
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text as a single line: line breaks and tabs are escaped too."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
