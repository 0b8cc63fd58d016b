"""Adding and removing servers in the text of a configuration file, leaving every other byte as it is.

Comments, order, indentation, line ends and trailing commas of the rest are kept; a new entry is written
like its neighbours. The text is only ever looked at and answered with another one; `runtime.editing` owns
the file. What an entry means is not judged here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from supervisor.core.document import is_blank, is_list, is_object, kind_of, parse
from supervisor.core.outline import Member, Value, outline
from supervisor.core.problems import dotted
from supervisor.errors import BadConfig, SupervisorError, UnknownServer

_DEFAULT_UNIT = "  "
_REST_OF_LINE = re.compile(r"(?:[ \t]*/\*(?:(?!\*/)[^\r\n])*\*/)*[ \t]*(?://[^\r\n]*)?")
_LIST_OVER_LINES = re.compile(r"\[[ \t]*\r?\n")


class AlreadyThere(SupervisorError):
    """The file describes a server of that name."""


@dataclass(frozen=True, slots=True)
class _Group:
    """An object of the document whose members are servers."""

    path: tuple[str, ...]
    value: Value


def add_server(text: str, name: str, entry: Mapping[str, Any], *, file: str = "this file") -> str:
    """The text with one more server, at the end of those that are there; errors call it `file`.

    Raises:
        AlreadyThere: There is one of that name.
        BadConfig: The text is not a configuration.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if is_blank(text):
        text = f"{_remarks(text, newline)}{{{newline}}}{newline}"
    root = _root(text, file)
    groups = tuple(_groups(root))
    for group in groups:
        if group.value.member(name) is not None:
            place = dotted((*group.path, name))
            raise AlreadyThere(
                f"cannot add server {name!r} to {file}: it is already there as {place}; "
                "remove it or take another name",
                server=name,
            )
    style = _Style(text, newline, _unit(text, root))
    if groups:
        return style.insert(groups[0].value, name, dict(entry))
    return style.insert(root, "mcpServers", {name: dict(entry)})


def remove_server(text: str, name: str, *, file: str = "this file") -> str:
    """The text without that server, nor the comment that ends its last line; errors call it `file`.

    Raises:
        UnknownServer: There is none of that name.
        BadConfig: The text is not a configuration.
    """
    known: list[str] = []
    for group in () if is_blank(text) else _groups(_root(text, file)):
        members = group.value.members or ()
        known += [member.name for member in members]
        for position, member in enumerate(members):
            if member.name == name:
                before = members[position - 1] if position else None
                is_last = position + 1 == len(members)
                return _without(text, group.value, member, before if is_last else None)
    raise UnknownServer(
        f"cannot find server {name!r} in {file}; it has: {', '.join(known) or 'none'}", server=name
    )


def _remarks(text: str, newline: str) -> str:
    """What a text without a document begins with: its comments, on lines of their own."""
    remarks = text.strip(" \t\r\n")
    return f"{remarks}{newline}" if remarks.strip("\ufeff") else ""


def _root(text: str, file: str) -> Value:
    document = parse(text.encode())
    if not is_object(document):
        raise BadConfig(f"cannot edit {file}: it must be an object, not {kind_of(document)}")
    for path in (("mcpServers",), ("servers",), ("mcp",), ("mcp", "servers")):
        _check_objects(document, path, file)
    return outline(text)


def _check_objects(document: Mapping[str, Any], path: tuple[str, ...], file: str) -> None:
    here: object = document
    for key in path:
        if not is_object(here) or key not in here:
            return
        here = here[key]
    if not is_object(here):
        raise BadConfig(f"cannot edit {file}: {dotted(path)} must be an object, not {kind_of(here)}")


def _groups(root: Value) -> Iterator[_Group]:
    """The groups of servers that the document has, in the order in which they are read."""
    for key in ("mcpServers", "servers"):
        if (member := root.member(key)) is not None:
            yield _Group((key,), member.value)
    if (mcp := root.member("mcp")) is not None:
        servers = mcp.value.member("servers")
        if servers is None or _is_an_entry(servers.value):
            yield _Group(("mcp",), mcp.value)
        else:
            yield _Group(("mcp", "servers"), servers.value)


def _is_an_entry(servers: Value) -> bool:
    """Whether opencode 1 has a server that is called "servers"; decided as `shapes` decides it."""
    telling = (servers.member(key) for key in ("type", "command", "url"))
    return any(member is not None and member.value.members is None for member in telling)


def _unit(text: str, root: Value) -> str:
    """What one step of indentation is in this text."""
    indentations = (_indentation(text, member.start) for member in root.members or ())
    return next(filter(None, indentations), _DEFAULT_UNIT)


def _indentation(text: str, position: int) -> str | None:
    """The white space before what stands here, if that is the first thing on its line."""
    before = text[text.rfind("\n", 0, position) + 1 : position]
    return None if before.strip(" \t") else before


def _end_of_remarks(text: str, position: int) -> int:
    """The end of the comments that follow on the same line."""
    remarks = _REST_OF_LINE.match(text, position)
    assert remarks is not None
    return remarks.end()


@dataclass(frozen=True, slots=True)
class _Style:
    """How a text is written, and so how something new is to be written into it."""

    text: str
    newline: str
    unit: str

    def insert(self, block: Value, name: str, value: Mapping[str, Any]) -> str:
        """The text with a new last member in the object."""
        members = block.members or ()
        return self._after(members[-1], name, value) if members else self._into_empty(block, name, value)

    def _after(self, last: Member, name: str, value: Mapping[str, Any]) -> str:
        text, indentation = self.text, _indentation(self.text, last.start)
        comma, trailing = (",", "") if last.comma is None else ("", ",")
        if indentation is None:
            return f"{text[: last.end]}{comma} {_json(name)}: {_json(value)}{trailing}{text[last.end :]}"
        neighbour = text[last.value.start : last.value.end]
        end = _end_of_remarks(text, last.end)
        if neighbour.startswith("{") and "\n" not in neighbour and last.value.members:
            written = _json(value)
        else:
            lists = _LIST_OVER_LINES.search(neighbour) is not None
            written = self._over_lines(value, indentation, lists=lists)
        return (
            f"{text[: last.end]}{comma}{text[last.end : end]}{self.newline}"
            f"{indentation}{_json(name)}: {written}{trailing}{text[end:]}"
        )

    def _into_empty(self, block: Value, name: str, value: Mapping[str, Any]) -> str:
        text = self.text
        line = text[text.rfind("\n", 0, block.start) + 1 : block.start]
        outer = line[: len(line) - len(line.lstrip(" \t"))]
        written = self._over_lines(value, outer + self.unit, lists=False)
        end = _end_of_remarks(text, block.start + 1)
        rest = text[end : block.end - 1]
        closing = rest if rest.strip() and "\n" in rest else f"{rest.strip()}{self.newline}{outer}"
        opening = f"{text[:end].rstrip()}{self.newline}{outer}{self.unit}"
        return f"{opening}{_json(name)}: {written}{closing}{text[block.end - 1 :]}"

    def _over_lines(self, value: object, indentation: str, *, lists: bool) -> str:
        inner = indentation + self.unit
        between, end = f",{self.newline}{inner}", f"{self.newline}{indentation}"
        if is_object(value) and value:
            members = (
                f"{_json(key)}: {self._over_lines(each, inner, lists=lists)}" for key, each in value.items()
            )
            return f"{{{self.newline}{inner}{between.join(members)}{end}}}"
        if lists and is_list(value) and value:
            items = (self._over_lines(each, inner, lists=lists) for each in value)
            return f"[{self.newline}{inner}{between.join(items)}{end}]"
        return _json(value)


def _json(value: object) -> str:
    """The value on one line.

    Raises:
        BadConfig: It holds bytes that are no text.
    """
    written = json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        raise BadConfig("cannot write the entry: it is not UTF-8 text; write it as UTF-8") from None
    return written


def _without(text: str, block: Value, member: Member, before: Member | None) -> str:
    """The text without this member of the block; `before` is the one before it, if it is the last."""
    start, end = member.start, member.end
    line_end = _end_of_remarks(text, end)
    if _indentation(text, start) is not None and text[line_end : line_end + 1] in {"\r", "\n"}:
        # Whole lines go: from the end of the line above to the end of its own last line.
        start, end = len(text[:start].rstrip(" \t").removesuffix("\n").removesuffix("\r")), line_end
    elif member.comma is not None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    head = text[:start]
    if before is not None and before.comma is not None and member.comma is None:
        between = head[before.comma + 1 :]
        head = head[: before.comma] + (between if between.strip() else "")
    inside = head[block.start + 1 :] + text[end : block.end - 1]
    return f"{head[: block.start + 1]}{inside if inside.strip() else ''}{text[block.end - 1 :]}"
