"""What a tool answered: whether it is an error, whether it fits, what it says in plain text.

A result is JSON that a server wrote. It is read from the outside in, only as deep as the question needs and
never block by block without end, so a hostile result costs no more time than a large one. Sizes are counted
in bytes of that JSON. Nothing here raises on a result of a strange shape: servers send those.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from supervisor.core.jsonrpc import UNREADABLE, read_fault

RESERVE = 1024
"""Set aside of a limit for notes and punctuation; a capped result is never larger than this or its limit."""

MAX_BLOCKS = 4096
"""How many blocks are looked at one by one; what comes after them is left out as a whole."""
_FEW_BLOCKS = 8
"""As many as most have. Places for more take a while to make, and a result may have its content often."""

Value = TypeVar("Value")
Payload = TypeVar("Payload", bytes, msgspec.Raw)

_ABSENT = msgspec.Raw(b"")
_TRUE = msgspec.Raw(b"true")
_SPACING = 64
_BLOCK_SPACING = 16
"""Bytes around a result's parts, and around each of its blocks, that may be no more than blanks."""


class _Ending(msgspec.Struct, rename="camel"):
    is_error: msgspec.Raw = _ABSENT


class _Block(msgspec.Struct, omit_defaults=True, rename={"meta": "_meta"}):
    type: msgspec.Raw = _ABSENT
    text: msgspec.Raw = _ABSENT
    annotations: msgspec.Raw = _ABSENT
    meta: msgspec.Raw = _ABSENT


_ending = msgspec.json.Decoder(_Ending)
_block = msgspec.json.Decoder(_Block)


class _Content(msgspec.Struct):
    content: msgspec.Raw


_whole_content = msgspec.json.Decoder(_Content)


def _blocks(count: int) -> type[msgspec.Struct]:
    # An array-like struct takes its first elements and skips all others without making objects of them.
    places = [(f"block_{number}", msgspec.Raw, _ABSENT) for number in range(count)]
    return msgspec.defstruct("_FirstBlocks", places, array_like=True)


@cache
def _result_decoder() -> "msgspec.json.Decoder[msgspec.Struct]":
    """Reads the parts of a result, and a few of its blocks."""
    others = [
        (name, msgspec.Raw, _ABSENT) for name in ("isError", "resultType", "_meta", "structuredContent")
    ]
    fields: list[Any] = [("content", _blocks(_FEW_BLOCKS)), *others]
    return msgspec.json.Decoder(msgspec.defstruct("_Result", fields))


@cache
def _content_decoder() -> "msgspec.json.Decoder[msgspec.Struct]":
    """Reads the blocks of a content that has many. Made when needed: so many places take nearly 3 MB."""
    return msgspec.json.Decoder(_blocks(MAX_BLOCKS))


class _Parts(Struct, frozen=True):
    """A result taken apart; `rest` is the size of what is neither a field we know nor one of the blocks."""

    fields: Mapping[str, msgspec.Raw]
    """All but the content; the more important first."""
    blocks: Sequence[msgspec.Raw]
    rest: int


def _read(decoder: msgspec.json.Decoder[Value], raw: bytes | msgspec.Raw) -> Value | None:
    """What `decoder` makes of `raw`, or None when it is of another shape."""
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


def _take_apart(raw: bytes | msgspec.Raw) -> _Parts | None:
    """The parts of a result; None when it has no content list."""
    result = _read(_result_decoder(), raw)
    if result is None:
        return None
    content, *others = msgspec.structs.astuple(result)
    names = result.__struct_fields__[1:]
    if msgspec.structs.astuple(content)[-1] != _ABSENT:
        content = _content_decoder().decode(_whole_content.decode(raw).content)
    fields = {name: value for name, value in zip(names, others, strict=True) if value != _ABSENT}
    blocks = [block for block in msgspec.structs.astuple(content) if block != _ABSENT]
    punctuation = len(b'{"content":[]}') + max(len(blocks) - 1, 0)
    known = sum(_cost(name, value) for name, value in fields.items()) + sum(map(_size, blocks))
    rest = _size(raw) - known - punctuation
    return _Parts(fields, blocks, rest if rest > _SPACING + _BLOCK_SPACING * len(blocks) else 0)


def _size(raw: bytes | msgspec.Raw) -> int:
    return memoryview(raw).nbytes


def _cost(name: str, value: msgspec.Raw) -> int:
    return len(b'"":,') + len(name) + _size(value)


def is_error(raw: bytes | msgspec.Raw) -> bool:
    """Whether the tool itself says that it failed; the content is skipped, not decoded."""
    try:
        return _ending.decode(raw).is_error == _TRUE
    except UNREADABLE:
        return False


# Flattening.


def flatten(raw: bytes | msgspec.Raw) -> bytes:
    """`{"error": …, "output": …}`: text blocks joined with newlines, everything else as its JSON.

    Without a content list the whole result is the output; with an empty one, its `structuredContent`.
    """
    error = b"true" if is_error(raw) else b"false"
    return b'{"error":%b,"output":"%b"}' % (error, _output(raw) or b"(no output)")


def unreachable(reason: str) -> bytes:
    """The flattened answer for a server that cannot be asked."""
    return msgspec.json.encode({"error": True, "output": f"MCP server unreachable: {reason}"})


def _output(raw: bytes | msgspec.Raw) -> bytes:
    parts = _take_apart(raw)
    if parts is None:
        return _quoted(raw)
    lines = [_plain(block) for block in parts.blocks]
    if len(lines) == MAX_BLOCKS and parts.rest:
        lines.append(b"[%d bytes left out]" % parts.rest)
    return b"\\n".join(lines) or _quoted(parts.fields.get("structuredContent", _ABSENT))


def _plain(raw: msgspec.Raw) -> bytes:
    block = _read(_block, raw)
    return bytes(memoryview(block.text)[1:-1]) if block is not None and _is_text(block) else _quoted(raw)


def _is_text(block: _Block) -> bool:
    return bytes(block.type) == b'"text"' and bytes(memoryview(block.text)[:1]) == b'"'


def _quoted(raw: bytes | msgspec.Raw) -> bytes:
    """JSON as the inside of a JSON string."""
    return msgspec.json.encode(str(bytes(raw), "utf-8", "replace"))[1:-1]


# Capping.

_SAID = 1000
"""Characters of an error's message that stay when the error does not fit."""
_NAMED = 5
"""How many left-out blocks are named in their place: as many notes as RESERVE holds."""
_KINDS = {b'"%b"' % kind.encode(): kind for kind in ("text", "image", "audio", "resource", "resource_link")}


def cap(raw: Payload, limit: int) -> tuple[Payload, int]:
    """The result within `limit` bytes, and how many bytes had to be left out for that.

    One that fits is returned as the same object. Otherwise text is cut, with a mark that says how much is
    missing, and what cannot be cut gives way to a text block that says so. Room goes to the smallest blocks
    first, so one huge block does not push the others out. `structuredContent` stays when it leaves half of
    the room to a content that needs it. Fields that MCP does not define are not kept.
    """
    if _size(raw) <= limit:
        return raw, 0
    capped, left_out = _capped(raw, limit)
    return type(raw)(capped), left_out


def _capped(raw: bytes | msgspec.Raw, limit: int) -> tuple[bytes, int]:
    parts = _take_apart(raw)
    if parts is None:
        note = _note("result without a content list", _size(raw), limit)
        return _joined({"isError": msgspec.Raw(b"true")} if is_error(raw) else {}, [note]), _size(raw)
    room = max(limit - RESERVE, 0)
    content_size = sum(map(_size, parts.blocks))
    kept = _kept_fields(parts.fields, room - min(content_size, room // 2))
    fitted = _fit(parts.blocks, room - sum(_cost(name, value) for name, value in kept.items()))
    dropped = {name: _size(value) for name, value in parts.fields.items() if name not in kept}
    content = [*_content(parts.blocks, fitted, limit)]
    if dropped:
        content.append(_note(", ".join(dropped), sum(dropped.values()), limit))
    if parts.rest:
        content.append(_note("rest of the result", parts.rest, limit))
    missing = sum(_size(parts.blocks[index]) for index in fitted.missing)
    return _joined(kept, content), fitted.cut_bytes + missing + sum(dropped.values()) + parts.rest


def _kept_fields(fields: Mapping[str, msgspec.Raw], room: int) -> dict[str, msgspec.Raw]:
    """What stays beside the content; nothing as short as `isError` is ever lost."""
    kept: dict[str, msgspec.Raw] = {}
    for name, value in fields.items():
        cost = _cost(name, value)
        if cost <= room or _size(value) <= len(b"false"):
            kept[name] = value
            room -= cost
    return kept


def _joined(kept: Mapping[str, msgspec.Raw], content: Sequence[bytes | msgspec.Raw]) -> bytes:
    array = msgspec.Raw(b"[%b]" % b",".join(content))
    return msgspec.json.encode({"content": array, **kept})


class _Fitted(Struct, frozen=True):
    """Which blocks stay, by their place; a cut one is shorter than it was."""

    blocks: Mapping[int, bytes | msgspec.Raw]
    missing: Sequence[int]
    cut_bytes: int


def _fit(blocks: Sequence[msgspec.Raw], room: int) -> _Fitted:
    """The blocks that `room` holds, smallest first; what is left of it goes to the first text to be cut."""
    sizes = [_size(block) for block in blocks]
    stay: dict[int, bytes | msgspec.Raw] = {}
    for index in sorted(range(len(blocks)), key=sizes.__getitem__):
        if sizes[index] >= room:
            break
        stay[index] = blocks[index]
        room -= sizes[index] + len(b",")
    missing = [index for index in range(len(blocks)) if index not in stay]
    for index in missing:
        cut = _cut_block(blocks[index], room - len(b","))
        if cut is not None:
            stay[index], cut_bytes = cut
            missing.remove(index)
            return _Fitted(stay, missing, cut_bytes)
    return _Fitted(stay, missing, 0)


def _content(blocks: Sequence[msgspec.Raw], fitted: _Fitted, limit: int) -> Iterator[bytes | msgspec.Raw]:
    """The blocks that stay, with notes in the place of the others."""
    named = frozenset(fitted.missing[:_NAMED])
    for index in sorted(named | fitted.blocks.keys()):
        if index in named:
            yield _note(_kind(blocks[index]), _size(blocks[index]), limit)
        else:
            yield fitted.blocks[index]
    if more := fitted.missing[_NAMED:]:
        yield _note(f"{len(more)} more blocks", sum(_size(blocks[index]) for index in more), limit)


def _kind(raw: msgspec.Raw) -> str:
    """A word for what the block is; never one of the server's own making."""
    block = _read(_block, raw)
    return "block" if block is None else _KINDS.get(bytes(block.type), "block")


def _note(what: str, size: int, limit: int) -> bytes:
    return msgspec.json.encode(
        {"type": "text", "text": f"[{what} left out: {size} bytes, over the limit of {limit}]"}
    )


def cap_fault(raw: msgspec.Raw, limit: int) -> msgspec.Raw:
    """A server's error within `limit` bytes; of a longer one, its code and the beginning of what it says."""
    if _size(raw) <= limit:
        return raw
    fault = read_fault(raw)
    said = f"{fault.message[:_SAID]} [{_size(raw)} bytes of error left out, over the limit of {limit}]"
    return msgspec.Raw(msgspec.json.encode({"code": fault.code, "message": said}))


# Cutting a JSON string without decoding it.

_LONGEST_ESCAPE = len(rb"\ud83d\ude00")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]")


def _cut_block(raw: msgspec.Raw, room: int) -> tuple[bytes, int] | None:
    """A text block cut to `room` bytes and how much text it lost; None when it cannot be cut so far."""
    block = _read(_block, raw)
    if block is None or not _is_text(block):
        return None
    length = _size(block.text) - len(b'""')
    space = room - (_size(raw) - length) - len(_mark(length))
    if space <= 0:
        return None
    body = bytes(memoryview(block.text)[1 : 1 + min(length, space + _LONGEST_ESCAPE)])
    end = _boundary(body, space)
    block.text = msgspec.Raw(b'"%b%b"' % (body[:end], _mark(length - end)))
    return msgspec.json.encode(block), length - end


def _mark(left_out: int) -> bytes:
    return b"\\n[%d bytes left out]" % left_out


def _boundary(body: bytes, end: int) -> int:
    """The last place at or before `end` that is inside no UTF-8 sequence, escape or surrogate pair.

    `body` reaches far enough beyond `end` to show what stands there.
    """
    earliest = max(end - 3, 0)
    while end > earliest and body[end] & 0b1100_0000 == 0b1000_0000:
        end -= 1
    last = body.rfind(b"\\", max(end - 5, 0), end)
    if last >= 0 and _starts_escape(body, last) and last + _escape_length(body, last) > end:
        end = last
    high = end - 6
    # JSON that msgspec has read holds no lone surrogates: after a high one comes its other half.
    if high >= 0 and _HIGH_SURROGATE.match(body, high) and _starts_escape(body, high):
        end = high
    return end


def _starts_escape(body: bytes, position: int) -> bool:
    """Whether the backslash at `position` opens an escape, not closes one: an odd one of its row."""
    upto = body[: position + 1]
    return (len(upto) - len(upto.rstrip(b"\\"))) % 2 == 1


def _escape_length(body: bytes, position: int) -> int:
    return 6 if body[position + 1 : position + 2] == b"u" else 2
