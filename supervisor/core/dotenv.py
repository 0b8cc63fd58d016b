r"""The lines of an environment file: `NAME=value`, as dotenv files have them.

`export` in front is allowed, `#` starts a comment. A value in single quotes is literal; in double quotes
it knows `\n`, `\r`, `\t`, `\"`, `\\` and `\$`; both may span lines. Nothing is interpolated.
"""

import re

from supervisor.errors import BadConfig

_LINE = re.compile(
    r"""
    [^\S\n]* (?:export[^\S\n]+)? (?P<name>[A-Za-z_][A-Za-z0-9_.-]*) [^\S\n]* = [^\S\n]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*+)" | (?P<bare>(?!['"])[^\n]*?) )
    [^\S\n]* (?:(?:(?<=\s)|(?<=['"]))\#[^\n]*)? (?:\n|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class DotenvError(BadConfig):
    """A line is not `NAME=value`; the message does not repeat it, because it may hold a secret."""


def parse_dotenv(content: bytes) -> dict[str, str]:
    """The variables of an environment file; of two lines with one name the later wins.

    Raises:
        DotenvError: It is not UTF-8 or a line is malformed.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise DotenvError(
            "cannot read the environment file: the text is not UTF-8; save it as UTF-8"
        ) from None
    variables: dict[str, str] = {}
    offset = 0
    while offset < len(text):
        match = _NOTHING.match(text, offset) or _LINE.match(text, offset)
        if match is None or "\0" in match[0]:
            line = text.count("\n", 0, offset) + 1
            raise DotenvError(f"cannot read the environment file: line {line} is not NAME=value")
        if match.re is _LINE:
            variables[match["name"]] = _value(match)
        offset = match.end()
    return variables


def _value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), match["double"])
    return match["bare"] if match["single"] is None else match["single"]
