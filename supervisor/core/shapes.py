"""Other programs' configuration shapes, turned into ours, so that a block can be pasted unchanged.

| program                        | servers stand under | what is translated                                 |
|--------------------------------|---------------------|----------------------------------------------------|
| this one, Claude, Cursor       | `mcpServers`        | `type`/`transport` aliases                         |
| VS Code                        | `servers`           | numbers and nulls in `env`                         |
| opencode 1                     | `mcp`               | `command` list, `environment`, `timeout` in ms     |
| opencode 2, VS Code's settings | `mcp.servers`       | `disabled`, `timeout` with `startup` and `request` |

Shapes are recognised by their keys, not by the name of the file, and every translation works in every
shape where it is unambiguous. Nothing is validated here beyond what a translation needs: `spec` judges.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from unicodedata import category

from msgspec import Struct

from supervisor.core.document import is_list, is_object, kind_of
from supervisor.core.problems import Notice, Path, Problem, dotted, listed, unknown_key
from supervisor.errors import BadConfig

Transport = Literal["stdio", "streamableHttp"]

TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "streamableHttp": "streamableHttp",
    "streamable-http": "streamableHttp",
    "http": "streamableHttp",
    "remote": "streamableHttp",
}
MAX_NAME_LENGTH = 64

_TOP_LEVEL = ("mcpServers", "servers", "mcp", "supervisor", "$schema", "inputs")
_OPENCODE_TYPES = ("local", "remote")


@dataclass(frozen=True, slots=True)
class RawEntry:
    """One server as a file describes it, in our spelling; not yet judged when `problem` is None."""

    name: str
    path: Path
    keys: Mapping[str, Any] = field(repr=False)
    renamed: Mapping[str, str]
    """Our key -> the key in the file, where they differ."""
    problem: Problem | None = None


class Shaped(Struct, frozen=True):
    """What one file holds, before anything is judged."""

    entries: tuple[RawEntry, ...]
    settings: Mapping[str, Any]
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    lost: frozenset[str] = frozenset()
    """The parts that are there and of which nothing could be read, by their place; "" is all of it."""


class _Group(Struct, frozen=True):
    """The servers under one key."""

    path: Path
    servers: Mapping[str, Any]
    opencode: bool = False
    timeout: object = None
    """opencode 2's `mcp.timeout`, for entries without their own."""


class _Unusable(BadConfig):
    """An entry cannot be translated; carries where below the entry, and why."""

    def __init__(self, reason: str, *below: str) -> None:
        super().__init__(reason)
        self.below = below


def shaped(document: object, *, file: str) -> Shaped:
    """The servers and settings of a document, in our spelling."""
    if not is_object(document):
        problem = Problem(file, "", f"must be an object, not {kind_of(document)}")
        return Shaped((), {}, (problem,), (), frozenset({""}))
    problems: list[Problem] = []
    groups = tuple(_groups(document, file, problems))
    settings = _object_at(document, ("supervisor",), file, problems)
    lost = frozenset(problem.path for problem in problems)
    entries: dict[str, RawEntry] = {}
    for group in groups:
        for name, raw in group.servers.items():
            entry = _entry(name, raw, group, file)
            if name in entries:
                message = f"is also described at {dotted(entries[name].path)}; remove one"
                problems.append(Problem(file, dotted(entry.path), message))
            else:
                entries[name] = entry
    unknown = (key for key in document if key not in _TOP_LEVEL)
    notices = tuple(unknown_key(key, _TOP_LEVEL, file=file, path=()) for key in unknown)
    return Shaped(tuple(entries.values()), settings, tuple(problems), notices, lost)


def _groups(document: dict[str, Any], file: str, problems: list[Problem]) -> Iterator[_Group]:
    for key in ("mcpServers", "servers"):
        yield _Group((key,), _object_at(document, (key,), file, problems))
    mcp = _object_at(document, ("mcp",), file, problems)
    if "servers" in mcp and not _looks_like_an_entry(mcp["servers"]):
        path = ("mcp", "servers")
        servers = _object_at(mcp, path, file, problems)
        yield _Group(path, servers, opencode=True, timeout=mcp.get("timeout"))
    else:
        yield _Group(("mcp",), mcp, opencode=True)


def _looks_like_an_entry(value: object) -> bool:
    """Whether opencode 1 has a server that is called "servers"."""
    return is_object(value) and any(
        key in value and not is_object(value[key]) for key in ("type", "command", "url")
    )


def _object_at(parent: dict[str, Any], path: Path, file: str, problems: list[Problem]) -> dict[str, Any]:
    """The object under the last key of the path; an empty one when it is absent or wrong."""
    value = parent.get(str(path[-1]), {})
    if is_object(value):
        return value
    problems.append(Problem(file, dotted(path), f"must be an object, not {kind_of(value)}"))
    return {}


def _entry(name: str, raw: object, group: _Group, file: str) -> RawEntry:
    path = (*group.path, name)
    try:
        _check_name(name)
        keys, renamed = _translated(raw, group)
    except _Unusable as error:
        return RawEntry(name, path, {}, {}, Problem(file, dotted((*path, *error.below)), str(error)))
    return RawEntry(name, path, keys, renamed)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME_LENGTH or any(category(letter) == "Cc" for letter in name):
        raise _Unusable(
            f"has a name that cannot be used; take 1 to {MAX_NAME_LENGTH} characters, no control characters"
        )


def _translated(raw: object, group: _Group) -> tuple[dict[str, Any], dict[str, str]]:
    if not is_object(raw):
        raise _Unusable(f"must be an object, not {kind_of(raw)}")
    keys, renamed = dict(raw), dict[str, str]()
    opencode = group.opencode or raw.get("type") in _OPENCODE_TYPES
    if opencode and "timeout" not in keys and group.timeout is not None:
        keys["timeout"] = group.timeout
    keys["type"] = _transport(keys)
    keys.pop("transport", None)
    _split_command(keys)
    _rename_environment(keys, renamed)
    _turn_disabled(keys, renamed)
    _convert_timeout(keys, renamed, plain_number=opencode)
    return keys, renamed


def _transport(keys: Mapping[str, Any]) -> Transport:
    said: dict[str, Transport] = {
        key: _named_transport(keys[key], key) for key in ("type", "transport") if key in keys
    }
    if len(set(said.values())) > 1:
        raise _Unusable("says one thing in type and another in transport; remove one")
    if said:
        return next(iter(said.values()))
    match ("command" in keys, "url" in keys):
        case (True, False):
            return "stdio"
        case (False, True):
            return "streamableHttp"
        case (True, True):
            raise _Unusable('has both command and url; add "type": "stdio" or "type": "streamableHttp"')
        case _:
            raise _Unusable('needs "command" for a program to start, or "url" for a server to reach')


def _named_transport(value: object, key: str) -> Transport:
    if value == "sse":
        raise _Unusable(
            'is "sse", which MCP has replaced; use "streamableHttp" with the address that the server '
            "gives for it, often the same with /mcp at its end",
            key,
        )
    if not isinstance(value, str) or value not in TRANSPORTS:
        known = listed([f'"{name}"' for name in TRANSPORTS], joint="or")
        raise _Unusable(f"must be {known}", key)
    return TRANSPORTS[value]


def _split_command(keys: dict[str, Any]) -> None:
    """A command with its arguments in one list, as opencode writes it."""
    command = keys.get("command")
    if not is_list(command):
        return
    if not command:
        raise _Unusable("must name a program, not be an empty list", "command")
    args = keys.get("args", [])
    if not is_list(args):
        raise _Unusable(f"must be a list, not {kind_of(args)}", "args")
    keys["command"], keys["args"] = command[0], [*command[1:], *args]


def _rename_environment(keys: dict[str, Any], renamed: dict[str, str]) -> None:
    """`environment` is opencode's `env`; VS Code writes numbers, and null for "not set"."""
    if "environment" in keys and "env" not in keys:
        keys["env"] = keys.pop("environment")
        renamed["env"] = "environment"
    if is_object(variables := keys.get("env")):
        keys["env"] = {name: _as_text(value) for name, value in variables.items() if value is not None}


def _as_text(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _turn_disabled(keys: dict[str, Any], renamed: dict[str, str]) -> None:
    if "disabled" not in keys:
        return
    disabled = keys.pop("disabled")
    if not isinstance(disabled, bool):
        raise _Unusable(f"must be true or false, not {kind_of(disabled)}", "disabled")
    if "enabled" not in keys:
        renamed["enabled"] = "disabled"
    elif keys["enabled"] is disabled:
        raise _Unusable("says enabled and disabled at once; remove one")
    keys["enabled"] = not disabled


def _convert_timeout(keys: dict[str, Any], renamed: dict[str, str], *, plain_number: bool) -> None:
    """Milliseconds, as opencode has them; elsewhere a plain number could mean anything and is left."""
    timeout = keys.get("timeout")
    if is_object(timeout):
        parts = {"startTimeout": timeout.get("startup"), "callTimeout": timeout.get("request")}
    elif timeout is not None and plain_number:
        parts = {"startTimeout": timeout}
    else:
        return
    del keys["timeout"]
    for key, milliseconds in parts.items():
        if milliseconds is not None and key not in keys:
            keys[key] = _seconds(milliseconds)
            renamed[key] = "timeout"


def _seconds(milliseconds: object) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        raise _Unusable(f"must be a number of milliseconds, not {kind_of(milliseconds)}", "timeout")
    return milliseconds / 1000
