"""Blotting out secrets in what people are shown of a configuration: its text, and the words of a command.

Every value of a variable or a header is one. So is what stands where a secret usually does: after an option
such as `--api-key`, in the query of an address, under a key such as `clientSecret`. In a comment, which may
be an entry that was switched off, every quoted value counts. It is a guess, and it errs on the side of
hiding. What is concealed is for eyes only, never to be written or run.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supervisor.core.exposure import HEADER, OPTION, TELLING

BLOT = "***"

_LEXEME = re.compile(
    r"""(?P<comment>//[^\r\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[\[\]{},:])"""
    r"""|(?P<word>[^\s"\[\]{},:/\ufeff]+)""",
    re.DOTALL,
)
_CONCEALED_KEYS = frozenset({"env", "environment", "headers"})
_TELLING_KEY = re.compile(rf"[\w.-]*{TELLING}", re.IGNORECASE)

_CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/?#\s\"]*@")
_QUERY = re.compile(
    rf"([?&](?:[\w.%-]*{TELLING}|key|sig|signature|code|auth|pass|pwd)=)[^&#\s\"]+", re.IGNORECASE
)
_PAIR = re.compile(
    rf"""({TELLING}["']?\s*[:=]\s*)(?:(?:bearer|basic|token)\s+)?("[^"]*"|'[^']*'|[^\s,;&"'}}]+)""",
    re.IGNORECASE,
)
_WELL_KNOWN = re.compile(
    r"\b(sk-|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|hf_|AIza|AKIA)(?=[\w-]*\d)[\w-]{12,}"
)
_CARRIERS = frozenset({"-e", "--env", "-H", "--header"})
_CARRIED = re.compile(r"([^=:\s]+\s*[=:]\s*).+", re.DOTALL)
_CARRIER_AND_CARRIED = re.compile(r"(--(?:env|header)=[^=:\s]+\s*[=:]\s*).+", re.DOTALL)

_QUOTED = re.compile(r'"(?:[^"\\\r\n]|\\.)*(?:"|$)(?P<key>\s*:)?', re.MULTILINE)
_ASSIGNED = re.compile(r"(=\s*)[^\s,;&]+")


def concealed(text: str) -> str:
    """The text of a configuration file with every secret blotted out; line breaks stay where they are."""
    pieces: list[str] = []
    copied = 0
    for start, end, shown in _Walk(text).replacements():
        pieces += [text[copied:start], shown]
        copied = end
    return "".join([*pieces, text[copied:]])


def concealed_words(words: Sequence[str]) -> tuple[str, ...]:
    """A command and its arguments, or an address alone, as they may be shown."""
    return tuple(_word(word, before) for word, before in zip(words, ["", *words], strict=False))


def _word(word: str, before: str) -> str:
    """An argument, given the one before it."""
    option, asked = OPTION.fullmatch(word), OPTION.fullmatch(before)
    if before in _CARRIERS and (carried := _CARRIED.fullmatch(word)):
        return carried[1] + BLOT
    if asked is not None and asked[2] is None and not word.startswith("-"):
        return BLOT
    if option is not None:
        return f"{option[1]}={BLOT}" if option[2] else word
    if carried := _CARRIER_AND_CARRIED.fullmatch(word):
        return carried[1] + BLOT
    header = HEADER.fullmatch(word)
    return _plain(word) if header is None else f"{header[1]}: {BLOT}"


def _plain(text: str) -> str:
    """Any text, without what looks like a secret wherever it stands."""
    text = _CREDENTIALS_IN_URL.sub(f"{BLOT}@", text)
    text = _QUERY.sub(rf"\1{BLOT}", text)
    text = _PAIR.sub(rf"\1{BLOT}", text)
    return _WELL_KNOWN.sub(rf"\1{BLOT}", text)


def _comment(text: str) -> str:
    def quoted(match: re.Match[str]) -> str:
        return match[0] if match["key"] else f'"{BLOT}"'

    return _plain(_ASSIGNED.sub(rf"\1{BLOT}", _QUOTED.sub(quoted, text)))


@dataclass(slots=True)
class _Container:
    """An object or a list that is still open."""

    is_object: bool
    secret: bool
    """Whether all that it holds is."""
    key: str | None = None
    """That of the value that comes next, in an object."""
    before: str = ""
    """The last string, in a list."""


class _Walk:
    """One walk along the text of a document that `document.parse` accepts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open = [_Container(is_object=False, secret=False)]

    def replacements(self) -> Iterator[tuple[int, int, str]]:
        """Where something else is to be shown: from, to, and what."""
        for match in _LEXEME.finditer(self._text):
            shown = self._shown(match)
            if shown != match[0]:
                yield match.start(), match.end(), shown

    def _shown(self, match: re.Match[str]) -> str:
        here = self._open[-1]
        match match.lastgroup:
            case "comment":
                return _comment(match[0])
            case "mark":
                self._mark(match[0])
                return match[0]
            case "string" if here.is_object and here.key is None:
                here.key = json.loads(match[0])
                return match[0]
            case "string":
                return self._string(match[0])
            case _:
                return f'"{BLOT}"' if self._is_secret() else match[0]

    def _mark(self, mark: str) -> None:
        match mark:
            case "{" | "[":
                self._open.append(_Container(is_object=mark == "{", secret=self._is_secret()))
            case "}" | "]":
                self._open.pop()
            case ",":
                self._open[-1].key = None
            case _:
                pass

    def _is_secret(self) -> bool:
        """Whether the value that comes next is a secret for where it stands."""
        here = self._open[-1]
        return here.secret or (here.key is not None and here.key in _CONCEALED_KEYS)

    def _string(self, lexeme: str) -> str:
        here = self._open[-1]
        if self._is_secret() or (here.key is not None and _TELLING_KEY.fullmatch(here.key)):
            return f'"{BLOT}"'
        value: str = json.loads(lexeme)
        shown = _word(value, here.before)
        here.before = "" if here.is_object else value
        return lexeme if shown == value else json.dumps(shown, ensure_ascii=False)
