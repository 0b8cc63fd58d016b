"""Bytes and JSON for the fake server: writing, dumping, and cutting JSON without changing a byte of it."""

import json
import os


def dump(value):
    return json.dumps(value, separators=(",", ":")).encode()


def write(descriptor, payload):
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]


def write_lines(descriptor, size):
    """Write `size` bytes in lines of at most 64."""
    line = b"." * 63 + b"\n"
    write(descriptor, (line * (size // 64 + 1))[:size])


def discard(*descriptors):
    """Point descriptors at nothing: the other end sees them closed, and their numbers stay taken."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)
    os.close(nothing)


def members(text):
    """The members of a JSON object as (key, text), or the items of an array as (None, text)."""
    decode = json.JSONDecoder().raw_decode
    position = len(text) - len(text.lstrip()) + 1
    keyed = text[position - 1] == "{"
    while text[position := past(text, position, ",")] not in "}]":
        key = None
        if keyed:
            key, position = decode(text, position)
            position = past(text, position, ":")
        start = position
        position = decode(text, position)[1]
        yield key, text[start:position]


def past(text, position, separator):
    while text[position] in " \t\r\n" or text[position] == separator:
        position += 1
    return position


def cut(text, *path):
    """The text of one member, found by its keys; an absent one is an empty object."""
    for key in path:
        text = dict(members(text)).get(key, "{}")
    return text
