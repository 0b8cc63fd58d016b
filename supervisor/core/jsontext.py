"""JSON as text, where a parser would cost too much or says too little.

How deep it nests, and which keys stand at its top. Nothing here builds the values: a hostile line of
some megabytes costs a few passes over its bytes.
"""

import re

import msgspec

_NOT_SHAPE = bytes(set(range(256)) - set(b'[]{}"'))
_TO_STEPS = bytes.maketrans(b"[{]}", b"(())")
_RUN = re.compile(rb"\(++|\)++")
_CROWDED = 16
"""Brackets for each innermost pair below which a whole level is taken away at once."""

# Possessive, and a string without an end reaches to the end: a hostile line costs no second look.
_STRING = rb'"(?:[^"\\]++|\\.)*+"?'
_KEY = re.compile(rb"[{,][ \t\r\n]*+(%b)[ \t\r\n]*+:[ \t\r\n]*+" % _STRING, re.DOTALL)
_NEXT = re.compile(rb"[ \t\r\n]*+([,}])")
_SCALAR = re.compile(rb"%b|[^\[{,}\] \t\r\n]++" % _STRING, re.DOTALL)
_FLAT = rb'(?:[^"\[\]{}]++|%b)*+' % _STRING
_STEP = re.compile(rb"(?:[^\"\[\]{}]++|%b|[\[{]%b[\]}])*+([\[{]++|[\]}]++)" % (_STRING, _FLAT), re.DOTALL)
"""The next brackets that matter: not those around what has no brackets in it."""
_MOST_MEMBERS = 100


# Nesting.


def is_deeper(line: bytes, limit: int) -> bool:
    """Whether the brackets of `line` nest deeper than `limit`, those inside strings aside.

    Brackets without a partner count as open; the parser will find the rest of what is wrong with them.
    """
    if line.count(b"{") + line.count(b"[") <= limit:
        return False
    brackets = _brackets(line)
    # Where there are many innermost pairs, each turn takes them all away, and with them one level of depth.
    while brackets.count(b"()") * _CROWDED > len(brackets):
        if limit == 0:
            return True
        brackets, limit = brackets.replace(b"()", b""), limit - 1
    depth = 0
    for run in _RUN.finditer(brackets):
        length = run.end() - run.start()
        if brackets[run.start()] == ord(")"):
            depth = max(depth - length, 0)
        elif (depth := depth + length) > limit:
            return True
    return False


def _brackets(line: bytes) -> bytes:
    """The brackets outside strings, as round ones."""
    if line.find(b"\\") >= 0:
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side, whichever string they belong to, change nothing for what is around them.
    shape = line.translate(_TO_STEPS, _NOT_SHAPE).replace(b'""', b"")
    return b"".join(shape.split(b'"')[::2])


# Keys.


class _Values(msgspec.Struct, gc=False):
    jsonrpc: msgspec.Raw = msgspec.Raw(b"")
    method: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")
    params: msgspec.Raw = msgspec.Raw(b"")


_values = msgspec.json.Decoder(_Values)
_text = msgspec.json.Decoder(str)


def key_problem(line: bytes) -> str | None:
    """What is wrong with the keys of an envelope, which is a valid object; rarely has to look closely."""
    if (
        line.count(b'"id"') <= 1
        and line.count(b'"method"') <= 1
        and line.count(b'"params"') <= 1
        and line.count(b'"jsonrpc"') <= 1
        # Not `in`, which is slow for bytes: it tries a number first.
        and line.find(b"\\u006") < 0
        and line.find(b"\\u007") < 0
    ):
        return None
    return _walk(line)


def _walk(line: bytes) -> str | None:
    """Go from key to key at the top, over the values without a look into those that the parser has found."""
    values, seen, at = _values.decode(line), set[str](), line.index(b"{")
    for _ in range(_MOST_MEMBERS):
        member = _KEY.match(line, at)
        assert member is not None, "an envelope has a key, and a comma is followed by another"
        key = _text.decode(member[1])
        if key not in _Values.__struct_fields__:
            at = _end_of_value(line, member.end())
        else:
            # The parser keeps the last of equal keys: another value here is that of an earlier one.
            value = getattr(values, key)
            at = member.end() + len(value)
            if key in seen or not line.startswith(value, member.end()) or not _NEXT.match(line, at):
                return "cannot accept an envelope in which a key stands twice"
            seen.add(key)
        following = _NEXT.match(line, at)
        assert following is not None, "a value is followed by a comma or by the end"
        if following[1] == b"}":
            return None
        at = following.start(1)
    return f"cannot accept an envelope of more than {_MOST_MEMBERS} keys"


def _end_of_value(line: bytes, at: int) -> int:
    """Where the value ends that begins at `at`."""
    scalar = _SCALAR.match(line, at)
    if scalar is not None:
        return scalar.end()
    steps, depth = _STEP.finditer(line, at + 1), 1
    while True:
        start, end = next(steps).span(1)
        if line[start] in b"[{":
            depth += end - start
        elif end - start < depth:
            depth -= end - start
        else:
            return start + depth
