"""Servers that other programs have configured, as entries for our own file.

Knows where those programs keep their configuration on Linux and how their entries read in our spelling.
Paths that were relative to their file are made absolute, because ours lies elsewhere. Reading the files is
`runtime.importing`'s; whether an entry is right is judged by the same rules as our own.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from supervisor.core.document import is_list, is_object, parse
from supervisor.core.layers import Layer, candidates
from supervisor.core.reading import spelling
from supervisor.core.shapes import RawEntry, shaped
from supervisor.core.spec import Defaults, HttpEntry, StdioEntry
from supervisor.errors import BadConfig

Program = Literal["claude", "claude-code", "cursor", "vscode", "opencode", "codex"]
State = Literal["new", "exists", "unusable"]

PROGRAMS: tuple[Program, ...] = get_args(Program)

_PROJECT_FOLDERS = frozenset({".cursor", ".vscode", ".codex"})
_RELATIVE_FILE = re.compile(r"\{file:(?![/~])([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Homes:
    """Where to look: the user's directories, and the project one is in."""

    home: str
    config: str
    codex: str
    project: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A server that another program has."""

    name: str
    source: str
    entry: Mapping[str, Any] = field(repr=False)
    """In our spelling; its variables and headers are secrets."""
    state: State
    reason: str = ""
    """Why it is not new."""


def places(program: Program, homes: Homes) -> tuple[str, ...]:
    """The files in which the program keeps its servers, the user's before the project's."""
    home, config, project = (PurePosixPath(each) for each in (homes.home, homes.config, homes.project))
    by_program: dict[Program, tuple[PurePosixPath, ...]] = {
        "claude": (config / "Claude" / "claude_desktop_config.json",),
        "claude-code": (home / ".claude.json", project / ".mcp.json"),
        "cursor": (home / ".cursor" / "mcp.json", project / ".cursor" / "mcp.json"),
        "vscode": (
            *(config / name / "User" / "mcp.json" for name in ("Code", "Code - Insiders", "VSCodium")),
            project / ".vscode" / "mcp.json",
        ),
        "opencode": tuple(
            folder / f"opencode.{suffix}"
            for folder in (config / "opencode", project)
            for suffix in ("json", "jsonc")
        ),
        "codex": (PurePosixPath(homes.codex, "config.toml"), project / ".codex" / "config.toml"),
    }
    return tuple(dict.fromkeys(map(str, by_program[program])))


def offers(content: bytes, *, file: str, project: str) -> tuple[Offer, ...]:
    """What a file of another program offers; its settings are left alone.

    Raises:
        BadConfig: The text is neither JSON nor TOML, as the name of the file promises.
    """
    document = _toml(content, file) if file.endswith(".toml") else parse(content)
    entries = [*shaped(document, file=file).entries, *_of_project(document, project, file)]
    unique = {entry.name: entry for entry in reversed(entries)}
    layer = Layer(file, tuple(unique.values()), {}, (), ())
    base = _base(file)
    return tuple(
        Offer(judged.name, file, _entry(unique[judged.name], base), "new")
        if judged.entry is not None
        else Offer(judged.name, file, {}, "unusable", "; ".join(map(str, judged.problems)))
        for judged in candidates([layer], Defaults())
    )


def sorted_out(found: Iterable[Offer], existing: Iterable[str]) -> tuple[Offer, ...]:
    """The offers with those marked that our configuration, or an earlier offer, has already."""
    taken = dict.fromkeys(existing, "the configuration has a server of this name")
    judged: list[Offer] = []
    for offer in found:
        if offer.state == "new" and offer.name in taken:
            judged.append(Offer(offer.name, offer.source, offer.entry, "exists", taken[offer.name]))
            continue
        if offer.state == "new":
            taken[offer.name] = f"{offer.source} offers a server of this name"
        judged.append(offer)
    return tuple(judged)


def _of_project(document: object, project: str, file: str) -> tuple[RawEntry, ...]:
    """What Claude Code keeps for one directory only."""
    here: object = document
    for key in ("projects", project):
        here = here.get(key) if is_object(here) else None
    return shaped(here, file=file).entries if is_object(here) else ()


def _base(file: str) -> str:
    """The directory that relative paths in this file start from."""
    folder = PurePosixPath(file).parent
    return str(folder.parent if folder.name in _PROJECT_FOLDERS else folder)


def _entry(raw: RawEntry, base: str) -> dict[str, Any]:
    """The keys that we know, with absolute paths; the transport only where it cannot be guessed."""
    model = HttpEntry if raw.keys["type"] == "streamableHttp" else StdioEntry
    known = {*spelling(model).values()} - {"type"}
    entry = {key: _filled(value, base) for key, value in raw.keys.items() if key in known}
    for key in ("cwd", "envFile"):
        if key in entry:
            entry[key] = _absolute(entry[key], base)
    if "/" in entry.get("command", "") and "cwd" not in entry:
        entry["command"] = _absolute(entry["command"], base)
    return entry


def _filled(value: Any, base: str) -> Any:
    """The value with the paths of `{file:…}` made absolute."""
    if is_object(value):
        return {key: _filled(each, base) for key, each in value.items()}
    if is_list(value):
        return [_filled(each, base) for each in value]
    if isinstance(value, str):
        return _RELATIVE_FILE.sub(lambda match: f"{{file:{PurePosixPath(base, match[1])}}}", value)
    return value


def _absolute(path: str, base: str) -> str:
    return path if path.startswith(("~", "$", "{")) else str(PurePosixPath(base, path))


def _toml(content: bytes, file: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(content.decode())
    except ValueError as error:
        raise BadConfig(f"cannot read {file}: it is not TOML: {error}") from error
    servers = _table(document, "mcp_servers")
    return {"mcpServers": {name: _of_codex(entry) for name, entry in servers.items()}}


def _table(parent: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if is_object(value) else {}


def _list(parent: Mapping[str, Any], key: str) -> list[Any]:
    value = parent.get(key)
    return value if is_list(value) else []


def _of_codex(entry: object) -> object:
    """An entry of Codex, in our spelling."""
    if not is_object(entry):
        return entry
    keys = {key: entry[key] for key in ("command", "args", "env", "cwd", "url", "enabled") if key in entry}
    headers = dict(_codex_headers(entry))
    seconds = {"startTimeout": entry.get("startup_timeout_sec"), "callTimeout": entry.get("tool_timeout_sec")}
    extra = {"headers": headers, "inheritEnv": entry.get("env_vars"), "tools": _codex_tools(entry), **seconds}
    return keys | {key: value for key, value in extra.items() if value}


def _codex_headers(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if variable := entry.get("bearer_token_env_var"):
        yield "Authorization", f"Bearer ${{{variable}}}"
    yield from _table(entry, "http_headers").items()
    for name, variable in _table(entry, "env_http_headers").items():
        yield name, f"${{{variable}}}"


def _codex_tools(entry: Mapping[str, Any]) -> list[str]:
    denied = [f"!{tool}" for tool in _list(entry, "disabled_tools")]
    allowed = _list(entry, "enabled_tools") or (["*"] if denied else [])
    return [*allowed, *denied]
