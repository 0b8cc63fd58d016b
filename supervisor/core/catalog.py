"""All tools of the fleet under their public names, and how that set changes.

A server's definitions are parsed once (`parse_tools`) and stand on the server's `Shelf`; all shelves make a
`Catalog`: an immutable table from public name to (server, tool), and the bytes of the listing. What is not
listed is in `left_out` with the reason. `Generations` numbers catalogs and says what changed between two.

Definitions are never decoded beyond their outermost keys: every value passes byte for byte as its server
wrote it. Only `name` is replaced, and `server`, `approval` and, for what is only
remembered, `remembered` are added to `_meta`. This module does not know
which servers run, and never splits a public name.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec

from supervisor.core.globs import allows
from supervisor.core.jsonrpc import UNREADABLE
from supervisor.core.jsontext import is_deeper
from supervisor.core.naming import public_name
from supervisor.core.policy import Annotations, Approval, Policy, judge, read_annotations
from supervisor.errors import SupervisorError

MAX_DEPTH = 90
"""How deep a definition may nest: a reader that allows a hundred levels still has room for what is around."""

MAX_BYTES = 1024 * 1024
"""How large a definition may be: no model reads a longer one, and every client would have to."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_NULL = msgspec.Raw(b"null")
_TRUE = msgspec.Raw(b"true")

Value = TypeVar("Value")
Steps = Generator[None, None, Value]
"""Work on many tools that can be interrupted after each; `done` does it in one go."""


def done(work: "Steps[Value]") -> Value:
    """What the work returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: Value = end.value
            return value


# Definitions, one by one.


class Tool(msgspec.Struct, frozen=True):
    """A well-formed definition: `raw` is what the server sent, on one line."""

    name: str
    annotations: Annotations | None
    raw: bytes


class BadTool(msgspec.Struct, frozen=True):
    """A definition that is not offered; `name` is empty when it could not be read."""

    position: int
    name: str
    reason: str


class BadDefinition(SupervisorError):
    """A tool definition that would break the clients that read it."""

    def __init__(self, problem: str, *, tool: str = "") -> None:
        super().__init__(f"cannot list a tool {problem}; its server has to mend it")
        self.tool = tool


def parse_tool(raw: bytes | msgspec.Raw) -> Tool:
    """The tool that `raw` defines.

    Raises:
        BadDefinition: not UTF-8, not an object, without a usable name or schema, too large or too deep.

    """
    text = bytes(raw)
    if len(text) > MAX_BYTES:
        raise BadDefinition(f"whose definition is larger than {MAX_BYTES} bytes")
    fields = _fields_of(text)
    name = _name_of(fields)
    if not bytes(fields.get("inputSchema", _NULL)).startswith(b"{"):
        raise BadDefinition("whose inputSchema is not an object", tool=name)
    if is_deeper(text, MAX_DEPTH):
        raise BadDefinition(f"whose definition nests deeper than {MAX_DEPTH} levels", tool=name)
    # Line breaks can only stand between tokens, and a client's message is one line.
    return Tool(name, read_annotations(fields.get("annotations", _NULL)), text.translate(_LINE_BREAKS))


def _fields_of(text: bytes) -> dict[str, msgspec.Raw]:
    try:
        text.decode()  # msgspec passes the bytes of a Raw string without a look
        return _object.decode(text)
    except UnicodeDecodeError as exc:
        raise BadDefinition("whose definition is not UTF-8") from exc
    except msgspec.DecodeError as exc:
        raise BadDefinition("whose definition is not a JSON object") from exc
    except RecursionError as exc:
        raise BadDefinition(f"whose definition nests deeper than {MAX_DEPTH} levels") from exc


def _name_of(fields: Mapping[str, msgspec.Raw]) -> str:
    try:
        name = _string.decode(fields.get("name", _NULL))
    except msgspec.DecodeError as exc:
        raise BadDefinition("whose name is not a string") from exc
    if not name:
        raise BadDefinition("whose name is empty")
    return name


Parsed = tuple[tuple[Tool, ...], tuple[BadTool, ...]]


def parse_tools(raws: Iterable[bytes | msgspec.Raw]) -> Steps[Parsed]:
    """The tools of one server, and the definitions that cost only themselves: bad ones and repeated names."""
    tools: dict[str, Tool] = {}
    bad: list[BadTool] = []
    for position, raw in enumerate(raws, start=1):
        yield
        try:
            tool = parse_tool(raw)
        except BadDefinition as exc:
            bad.append(BadTool(position, exc.tool, str(exc)))
            continue
        if tools.setdefault(tool.name, tool) is not tool:
            bad.append(BadTool(position, tool.name, "cannot list a tool twice; its first definition stays"))
    return tuple(tools.values()), tuple(bad)


# What a server offers.


class Route(msgspec.Struct, frozen=True):
    """Where a call goes."""

    server: str
    tool: str
    tool_json: bytes
    """The tool's own name as JSON, ready for the wire."""
    approval: Approval


class Listed(msgspec.Struct, frozen=True):
    """A tool as clients see it."""

    public_name: str
    route: Route
    tool: Tool
    reason: str
    """Why the policy let it in."""
    raw: bytes
    """The definition under the public name, with `server` and `approval` in its `_meta`."""

    @property
    def server(self) -> str:
        return self.route.server

    @property
    def approval(self) -> Approval:
        return self.route.approval


class LeftOut(msgspec.Struct, frozen=True):
    """A tool that clients neither see nor can call; `public_name` is empty when its own name is unknown."""

    server: str
    tool: str
    public_name: str
    cause: Literal["policy", "filter", "collision", "definition"]
    reason: str


class _Arrangement(msgspec.Struct, frozen=True):
    """A shelf under one separator and policy, before other shelves claim the same names."""

    offers: tuple[Listed, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Shelf:
    """What one server has; keep the object while nothing changes, it remembers its published bytes."""

    server: str
    prefix: str
    tools: tuple[Tool, ...]
    only: tuple[str, ...] | None = None
    """Globs on the server's own tool names; None lets all through."""
    bad: tuple[BadTool, ...] = ()
    remembered: bool = False
    """Whether this is what an earlier daemon saw, and nobody has confirmed it since."""
    _arranged: dict[tuple[str, Policy], _Arrangement] = field(
        default_factory=dict[tuple[str, Policy], _Arrangement], init=False, repr=False, compare=False
    )

    def arrange(self, *, separator: str, policy: Policy) -> _Arrangement:
        """The shelf's tools by name, offered or left out; computed once."""
        found = self._arranged.get((separator, policy))
        return done(self.arranging(separator=separator, policy=policy)) if found is None else found

    def arranging(self, *, separator: str, policy: Policy) -> Steps[_Arrangement]:
        """Arrange it step by step, so that `arrange` has it ready."""
        offers: list[Listed] = []
        left_out = [_bad_entry(self, bad, separator) for bad in self.bad]
        for tool in sorted(self.tools, key=attrgetter("name")):
            yield
            placed = self._place(tool, public_name(self.prefix, separator, tool.name), policy)
            if isinstance(placed, Listed):
                offers.append(placed)
            else:
                left_out.append(placed)
        arrangement = _Arrangement(tuple(offers), tuple(left_out))
        self._arranged[separator, policy] = arrangement
        return arrangement

    def _place(self, tool: Tool, name: str, policy: Policy) -> Listed | LeftOut:
        if self.only is not None and not allows(self.only, tool.name):
            reason = "the server's `tools` patterns do not let it through"
            return LeftOut(self.server, tool.name, name, "filter", reason)
        verdict = judge(policy, tool.annotations)
        if not verdict.listed:
            return LeftOut(self.server, tool.name, name, "policy", verdict.reason)
        route = Route(self.server, tool.name, msgspec.json.encode(tool.name), verdict.approval)
        return Listed(name, route, tool, verdict.reason, _published(tool, name, route, self.remembered))


def _bad_entry(shelf: Shelf, bad: BadTool, separator: str) -> LeftOut:
    name = public_name(shelf.prefix, separator, bad.name) if bad.name else ""
    return LeftOut(shelf.server, bad.name or f"#{bad.position}", name, "definition", bad.reason)


def _published(tool: Tool, name: str, route: Route, remembered: bool) -> bytes:  # noqa: FBT001 - a field of the shelf
    fields = _object.decode(tool.raw)
    meta = _object_or_empty(fields["_meta"]) if "_meta" in fields else {}
    stamped = {**meta, "server": route.server, "approval": route.approval}
    if remembered:
        stamped["remembered"] = _TRUE
    return msgspec.json.encode({**fields, "name": name, "_meta": stamped})


def _object_or_empty(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _object.decode(raw)
    except UNREADABLE:
        return {}


# What the fleet offers.

Select = Callable[[Listed], bool]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every tool of the fleet, at one moment."""

    listed: tuple[Listed, ...]
    """By public name."""
    left_out: tuple[LeftOut, ...]
    """By server and tool."""
    counts: Mapping[str, int]
    """How many tools of each server are listed."""
    by_name: Mapping[str, Listed] = field(repr=False, compare=False)
    _whole: bytes = field(repr=False, compare=False)

    def route(self, public_name: str) -> Route | None:
        """Where a call of `public_name` goes; None when nothing is listed under it."""
        found = self.by_name.get(public_name)
        return None if found is None else found.route

    def why_not(self, public_name: str) -> LeftOut | None:
        """The tool that would have this name, had it not been left out."""
        return next((entry for entry in self.left_out if entry.public_name == public_name), None)

    def listing(self, select: Select | None = None) -> bytes:
        """The JSON array of the listed tools, or of those that `select` wants."""
        return self._whole if select is None else array(filter(select, self.listed))


def array(listed: Iterable[Listed]) -> bytes:
    """The JSON array of these tools, in their order."""
    return b"[%b]" % b",".join([entry.raw for entry in listed])


def build(shelves: Iterable[Shelf], *, separator: str, policy: Policy) -> Catalog:
    """The catalog of these shelves, at most one per server; their order means nothing.

    A name that two tools would share goes to the first by server key, then by tool name.
    """
    by_server = sorted(shelves, key=attrgetter("server"))
    by_name: dict[str, Listed] = {}
    left_out: list[LeftOut] = []
    for shelf in by_server:
        arrangement = shelf.arrange(separator=separator, policy=policy)
        left_out += arrangement.left_out
        for offer in arrangement.offers:
            owner = by_name.setdefault(offer.public_name, offer)
            if owner is not offer:
                left_out.append(_collision(offer, owner))
    listed = tuple(sorted(by_name.values(), key=attrgetter("public_name")))
    counts = dict.fromkeys((shelf.server for shelf in by_server), 0)
    for offer in listed:
        counts[offer.route.server] += 1
    return Catalog(
        listed=listed,
        left_out=tuple(sorted(left_out, key=attrgetter("server", "tool"))),
        counts=MappingProxyType(counts),
        by_name=MappingProxyType(by_name),
        _whole=array(listed),
    )


def _collision(loser: Listed, owner: Listed) -> LeftOut:
    reason = f"the name belongs to tool {owner.tool.name!r} of server {owner.server!r}; set another `prefix`"
    return LeftOut(loser.server, loser.tool.name, loser.public_name, "collision", reason)


EMPTY = build((), separator="_", policy="read-only")
