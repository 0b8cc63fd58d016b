"""JSON-RPC 2.0 on the wire: envelopes are read, payloads are not.

Two readers, for the two ends. `read_message` takes what a server wrote and is lenient: what it cannot read
is noise. `read_request` takes what a client wrote and is strict to the letter of JSON-RPC, with bounds on
nesting and on batches. Both leave `params`, `result` and `error` as `msgspec.Raw`: a view of the line, so a
payload passes byte for byte (10**30, 1.0, duplicate keys) and without being copied.

The writers return one message without its framing.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from supervisor.core.jsontext import is_deeper, key_problem
from supervisor.core.labour import Excerpt
from supervisor.core.surrogates import without_halves
from supervisor.errors import INVALID_REQUEST, PARSE_ERROR, TooLarge

UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What `msgspec` raises for bytes from outside: not JSON or of another shape, too deep, no text."""
NO_RAW = msgspec.Raw(b"")
NULL = b"null"


class Message(msgspec.Struct, gc=False):
    """What a server wrote: an answer to us, a request of its own, or a notification."""

    id: int | str | float | None = None
    method: str | None = None
    params: msgspec.Raw = NO_RAW
    result: msgspec.Raw = NO_RAW
    error: msgspec.Raw = NO_RAW


class Fault(msgspec.Struct, gc=False):
    """The error object of an answer."""

    code: int = 0
    message: str = ""
    data: msgspec.Raw = NO_RAW


decode_message = msgspec.json.Decoder(Message).decode
"""The message in a line, for whoever handles the errors of `msgspec` himself."""
TOO_DEEP = msgspec.Raw(b"")
"""Stands for the error of an answer that nests too deep to be read."""
TOO_MUCH = msgspec.Raw(b"")
"""Stands for the error of an answer of which there is only an excerpt."""
_PLAIN_ID = rb'"id"\s*+:\s*+(0|[1-9][0-9]{0,14}|"[^"\\\x00-\x1f]{0,100}")\s*+'
_WORD = rb'"[^"\\\x00-\x1f]{0,40}"'
_ID_AHEAD = re.compile(rb"\s*+\{(?:\s*+%b\s*+:\s*+%b\s*+,)*?\s*+%b[,}]" % (_WORD, _WORD, _PLAIN_ID))
_ID_AT_THE_END = re.compile(rb",\s*+%b(?:,\s*+%b\s*+:\s*+%b\s*+)*+\}\s*+\Z" % (_PLAIN_ID, _WORD, _WORD))
_END = 150
_fault = msgspec.json.Decoder(Fault)


def read_message(line: bytes) -> Message | None:
    """The message in `line`, or None when there is none in it."""
    try:
        return decode_message(line)
    except UNREADABLE as problem:
        return rescued_message(line, problem)


def rescued_message(line: bytes, problem: Exception) -> Message | None:
    """What can be had of a line after `decode_message` has failed on it; None when that is nothing."""
    if isinstance(line, Excerpt):
        return _unread(line, TOO_MUCH)
    return _unread(line, TOO_DEEP) if isinstance(problem, RecursionError) else _mended(line)


def _mended(line: bytes) -> Message | None:
    """The message in a line with half a character in it, as a text has that was cut in the middle of one."""
    whole = without_halves(line)
    try:
        return None if whole is line else decode_message(whole)
    except UNREADABLE:
        return None


def _unread(line: bytes, why: msgspec.Raw) -> Message | None:
    """An answer that cannot be read is an error for whoever waits for it."""
    identity = _plain_id(line)
    return Message(id=int(identity), error=why) if identity.isdigit() else None


def _plain_id(line: bytes) -> bytes:
    """The id of a message that is not read, from where it stands in most; null elsewhere."""
    found = _ID_AHEAD.match(line) or _ID_AT_THE_END.search(line, max(len(line) - _END, 0))
    return NULL if found is None else found[1]


def read_fault(error: bytes | msgspec.Raw) -> Fault:
    """The error object as far as it can be read."""
    try:
        return _fault.decode(error)
    except UNREADABLE:
        return Fault(message="an error that cannot be read")


# The strict reader.


class _Envelope(msgspec.Struct, gc=False):
    jsonrpc: str = ""
    method: str | None = None
    id: msgspec.Raw = NO_RAW
    params: msgspec.Raw = NO_RAW


class Request(msgspec.Struct, frozen=True, gc=False):
    """A well-formed request; a notification when it has no `id`."""

    method: str
    params: msgspec.Raw
    id: bytes | None


class Invalid(msgspec.Struct, frozen=True, gc=False):
    """What must be answered with an error, under `id`."""

    code: int
    message: str
    id: bytes = NULL


_envelope = msgspec.json.Decoder(_Envelope)
_batch = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)
_ID_BEGINS = b'"-0123456789n'
_TOO_MUCH = "cannot read the request: it holds too many values or escapes; send it in smaller parts"


class _Id(msgspec.Struct, gc=False):
    id: msgspec.Raw = NO_RAW


_id = msgspec.json.Decoder(_Id)


plain_call = re.compile(
    rb'\{"jsonrpc": ?+"2\.0", ?+"id": ?+(0|[1-9][0-9]*+|"[^"\\\x00-\x1f]*+"), ?+"method": ?+"tools/call", ?+'
    rb'"params": ?+\{"name": ?+"([^"\\\x00-\x1f]*+)", ?+"arguments": ?+(\{.*\})\}\}\r?\n?'
).fullmatch
"""Cuts id, name and arguments out of a line that looks like a call without options, as most clients write it.

All else is spelled out here, so if the arguments are one JSON value and ASCII, then the line is a valid
request in which no key stands twice. `read_request` takes whatever does not match.
"""


def read_request(
    line: bytes, *, max_depth: int = 100, max_batch: int = 1000
) -> Request | Invalid | list[Request | Invalid]:
    """What a client asks in `line`: one request, one error to answer, or a batch of them."""
    if isinstance(line, Excerpt):
        return Invalid(TooLarge.code, _TOO_MUCH, _plain_id(line))
    if not line.isascii() or line.count(b"{") + line.count(b"[") > max_depth:
        problem = _text_problem(line, max_depth)
        if problem is not None:
            return problem
    if line.startswith(b"{") or not line.lstrip(b" \t\r\n").startswith(b"["):
        return _read_one(line)
    return _read_batch(line, max_batch)


def _read_batch(line: bytes, most: int) -> Invalid | list[Request | Invalid]:
    try:
        parts = _parts(line, most)
    except msgspec.ValidationError:
        return Invalid(INVALID_REQUEST, f"cannot accept a batch of more than {most} requests")
    except UNREADABLE as exc:
        if (whole := without_halves(line)) is not line:
            return _read_batch(whole, most)
        return Invalid(PARSE_ERROR, f"cannot parse the batch: {exc}")
    if not parts:
        return Invalid(INVALID_REQUEST, "cannot accept an empty batch")
    return [_read_one(bytes(part)) for part in parts]


def _parts(line: bytes, most: int) -> Sequence[msgspec.Raw]:
    """The requests of a batch, which are not even counted past `most`."""
    if line.count(b",") < most:
        return _batch.decode(line)
    places = _places(most).decode(line)
    return [part for part in msgspec.structs.astuple(places) if part]


@functools.cache
def _places(count: int) -> "msgspec.json.Decoder[Any]":
    """Reads an array of at most so many values, and gives up at the first that is too many."""
    fields = [(f"part_{number}", msgspec.Raw, NO_RAW) for number in range(count)]
    places = msgspec.defstruct("Places", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(places)


def _read_one(line: bytes) -> Request | Invalid:
    try:
        envelope = _envelope.decode(line)
    except UNREADABLE:
        return _explain(line)
    # One look for what is all right; what is wrong may take longer.
    identity, method, params = bytes(envelope.id), envelope.method, envelope.params
    if (
        envelope.jsonrpc == "2.0"
        and method is not None
        and (not identity or identity[0] in _ID_BEGINS)
        and (not params or memoryview(params)[0] in b"{[")
        and key_problem(line) is None
    ):
        return Request(method, params, identity or None)
    if not _may_be_id(identity):
        return Invalid(INVALID_REQUEST, "cannot accept an id that is not a string, a number or null")
    problem = _envelope_problem(envelope) or key_problem(line) or ""
    return Invalid(INVALID_REQUEST, problem, identity or NULL)


def _envelope_problem(envelope: _Envelope) -> str | None:
    if envelope.jsonrpc != "2.0":
        return 'cannot accept a request without "jsonrpc": "2.0"'
    if envelope.method is None:
        return "cannot accept a request without a method"
    if envelope.params and memoryview(envelope.params)[0] not in b"{[":
        return "cannot accept params that are neither an object nor an array"
    return None


def _explain(line: bytes) -> Request | Invalid:
    """Why the envelope could not be read: not JSON at all, or JSON of another shape."""
    try:
        _value.decode(line)
    except UNREADABLE as exc:
        if (whole := without_halves(line)) is not line:
            return _read_one(whole)
        return Invalid(PARSE_ERROR, f"cannot parse the line as JSON: {exc}")
    try:
        identity = bytes(_id.decode(line).id)
    except UNREADABLE:
        return Invalid(INVALID_REQUEST, "cannot accept a request that is not an object")
    return Invalid(
        INVALID_REQUEST,
        "cannot accept this request: jsonrpc and method must be strings",
        identity if identity and _may_be_id(identity) else NULL,
    )


def _may_be_id(raw: bytes) -> bool:
    """Whether a value that is valid JSON, or absent, is a string, a number or null."""
    return not raw or raw[0] in _ID_BEGINS


def _text_problem(line: bytes, max_depth: int) -> Invalid | None:
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError as exc:
            return Invalid(PARSE_ERROR, f"cannot parse the line: not UTF-8 at byte {exc.start}")
    if is_deeper(line, max_depth):
        return Invalid(PARSE_ERROR, f"cannot parse the line: nested deeper than {max_depth}", _id_of(line))
    return None


def _id_of(line: bytes) -> bytes:
    """The id of a request that will not be served, as far as it can be had."""
    try:
        identity = bytes(_id.decode(line).id)
    except UNREADABLE:
        return NULL
    return identity if identity and _may_be_id(identity) else NULL


# Writers.


def request_line(number: int, method: str, params: bytes | msgspec.Raw) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % (number, method.encode(), params)


def notification_line(method: str, params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"%s","params":%s}' % (method.encode(), params)


def result_line(identity: bytes, result: bytes | msgspec.Raw) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (identity, result)


def result_head(identity: bytes) -> bytes:
    """What stands before a result; a closing brace stands after it."""
    return b'{"jsonrpc":"2.0","id":%s,"result":' % identity


def fault_line(identity: bytes, error: bytes | msgspec.Raw) -> bytes:
    """An error answer with an error object that passes as it is."""
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (identity, error)


def error_line(identity: bytes, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data:
        error["data"] = data
    return fault_line(identity, msgspec.json.encode(error))
