"""From the bytes of a configuration file to a plain value, or to one error that says where.

The format is JSON plus what people write in it: `//` and `/* */` comments, and a comma after the last
item. One pass over the text blanks both with spaces of equal length, so every position that is reported
is the position in the file; the rest is the standard parser's. The same pass refuses what that parser
would let through: a key that occurs twice in one object, `NaN`, `Infinity`, numbers beyond a double,
lone surrogates, nesting without end.

It knows nothing of servers and reads no files.
"""

import json
import math
import re
from typing import Any, NoReturn, TypeGuard

from msgspec import Struct, field

from supervisor.errors import BadConfig

MAX_DEPTH = 100
MAX_NUMBER_LENGTH = 400

_TOKEN = re.compile(
    r"""
      (?P<string>  "(?:[^"\\\n]|\\.)*+(?P<closed>")? )
    | (?P<comment> //[^\r\n]* | /\*(?:.*?\*/|.*) )
    | (?P<mark>    [\[\]{},:] )
    | (?P<word>    [^\s"\[\]{},:/]+ | / )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER_START = re.compile(r"-?[0-9]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BEFORE_A_VALUE = frozenset({"", "[", "{", ",", ":"})
_NOT_A_LINE_BREAK = re.compile(r"[^\r\n]")


class DocumentError(BadConfig):
    """The text is not a document; `line` and `column` count from 1."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"cannot read the document: line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


def parse(content: bytes) -> Any:
    """The value that the document holds.

    Raises:
        DocumentError: It is not UTF-8, not JSON with comments, or ambiguous.
    """
    text = _decode(content)
    plain = _Scan(text).run()
    if not plain.strip():
        raise DocumentError("the document is empty; write {} for no servers", line=1, column=1)
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        reason = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        raise DocumentError(reason, line=error.lineno, column=error.colno) from None


def is_blank(text: str) -> bool:
    """Whether the text holds white space and comments at most.

    Raises:
        DocumentError: A comment or a string is never closed, or the text is ambiguous.
    """
    return not _Scan(text.removeprefix("\ufeff")).run().strip()


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value of a document is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a value of a document is a list."""
    return isinstance(value, list)


def kind_of(value: object) -> str:
    """What JSON calls a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        line, column = _position(before, len(before))
        raise DocumentError("the text is not UTF-8; save it as UTF-8", line=line, column=column) from None


def _position(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Container(Struct):
    """An object or list that is still open; only an object gathers keys."""

    is_object: bool
    keys: set[str] = field(default_factory=set[str])


class _Scan:
    """One pass over the tokens: refuses what is ambiguous, finds what JSON does not know."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blanks: list[tuple[int, int]] = []
        self.open: list[_Container] = []
        self.before = ""
        """The mark before this lexeme, or a value's own: a comma can be trailing only after a value."""
        self.comma: int | None = None
        """Where a comma stands that is trailing if a bracket closes next."""

    def run(self) -> str:
        """The text with comments and trailing commas blanked."""
        for match in _TOKEN.finditer(self.text):
            lexeme, start = match[0], match.start()
            match match.lastgroup:
                case "comment":
                    self._comment(lexeme, start)
                    continue
                case "mark":
                    self._mark(lexeme, start)
                case "string":
                    if match["closed"] is None:
                        self._refuse("the string is never closed", start)
                    self._string(lexeme, start)
                case _:
                    self._word(lexeme, start)
            self.comma = start if lexeme == "," and self.before not in _BEFORE_A_VALUE else None
            self.before = lexeme
        return _blanked(self.text, sorted(self.blanks))

    def _comment(self, lexeme: str, start: int) -> None:
        if lexeme.startswith("/*") and (len(lexeme) < 4 or not lexeme.endswith("*/")):
            self._refuse("the comment is never closed; add */", start)
        self.blanks.append((start, start + len(lexeme)))

    def _mark(self, lexeme: str, start: int) -> None:
        match lexeme:
            case "{" | "[":
                if len(self.open) == MAX_DEPTH:
                    self._refuse(f"more than {MAX_DEPTH} objects or lists lie in one another", start)
                self.open.append(_Container(is_object=lexeme == "{"))
            case "}" | "]":
                if self.comma is not None:
                    self.blanks.append((self.comma, self.comma + 1))
                if self.open:
                    self.open.pop()
            case _:
                pass

    def _string(self, lexeme: str, start: int) -> None:
        value = _string_value(lexeme)
        if _SURROGATE.search(value):
            self._refuse("the string holds half of a surrogate pair; write the character itself", start)
        if self.open and self.open[-1].is_object and self.before in {"{", ","}:
            if value in self.open[-1].keys:
                self._refuse(f"the key {lexeme} occurs twice in one object; remove one", start)
            self.open[-1].keys.add(value)

    def _word(self, lexeme: str, start: int) -> None:
        if lexeme in {"NaN", "Infinity", "-Infinity"}:
            self._refuse(f"{lexeme} is not a JSON number", start)
        if _NUMBER_START.match(lexeme) and (len(lexeme) > MAX_NUMBER_LENGTH or _is_infinite(lexeme)):
            self._refuse("the number is too large", start)

    def _refuse(self, reason: str, offset: int) -> NoReturn:
        line, column = _position(self.text, offset)
        raise DocumentError(reason, line=line, column=column)


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    copied = 0
    for start, end in spans:
        pieces += [text[copied:start], _NOT_A_LINE_BREAK.sub(" ", text[start:end])]
        copied = end
    return "".join([*pieces, text[copied:]])


def _string_value(lexeme: str) -> str:
    """The string that a lexeme stands for; the lexeme itself when the parser will refuse it anyway."""
    if "\\" not in lexeme:
        return lexeme[1:-1]
    try:
        return str(json.loads(lexeme))
    except json.JSONDecodeError:
        return lexeme


def _is_infinite(word: str) -> bool:
    try:
        return math.isinf(float(word))
    except ValueError:
        return False
