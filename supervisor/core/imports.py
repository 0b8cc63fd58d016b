"""Servers that other programs have configured, as entries for our own file.

Knows where those programs keep their configuration on Linux and how their entries read in our spelling.
Paths that were relative to their file or their project are made absolute, because ours lies elsewhere, and
what an editor would know of a project is filled in. Reading the files is `runtime.importing`'s; whether an
entry is right is judged by the same rules as our own.
"""

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from supervisor.core.concealment import concealed_words
from supervisor.core.document import is_list, is_object, parse
from supervisor.core.interpolate import editor_references
from supervisor.core.layers import Candidate, Layer, candidates
from supervisor.core.problems import dotted, listed
from supervisor.core.reading import spelling
from supervisor.core.shapes import RawEntry, shaped
from supervisor.core.spec import Defaults, HttpEntry, StdioEntry
from supervisor.errors import BadConfig

Program = Literal["claude", "claude-code", "cursor", "vscode", "opencode", "codex"]
State = Literal["new", "incomplete", "exists", "unusable"]
"""An incomplete one is new, but refers to something that only its editor can fill in."""

PROGRAMS: tuple[Program, ...] = get_args(Program)

_PROJECT_FOLDERS = frozenset({".cursor", ".vscode", ".codex"})
_PROJECT_FILES = frozenset({".mcp.json", "opencode.json", "opencode.jsonc"})
_KNOWN_HERE = re.compile(
    r"\$\{(workspaceFolder|workspaceRoot|workspaceFolderBasename|userHome|pathSeparator|/)\}"
)
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

    @property
    def launch(self) -> str:
        """Its command or its address, for a person: without secrets. Empty when it is unusable."""
        words = [self.entry[key] for key in ("command", "url") if key in self.entry]
        return " ".join(map(_quoted, concealed_words([*words, *self.entry.get("args", ())])))


def places(program: Program, homes: Homes) -> tuple[str, ...]:
    """The files in which the program keeps its servers, the user's before the project's."""
    return tuple(dict.fromkeys((*_of_user(program, homes), *_of_project(program, homes.project))))


def _of_user(program: Program, homes: Homes) -> tuple[str, ...]:
    home, config = homes.home, homes.config
    by_program: dict[Program, tuple[str, ...]] = {
        "claude": (f"{config}/Claude/claude_desktop_config.json",),
        "claude-code": (f"{home}/.claude.json",),
        "cursor": (f"{home}/.cursor/mcp.json",),
        "vscode": tuple(f"{config}/{name}/User/mcp.json" for name in ("Code", "Code - Insiders", "VSCodium")),
        "opencode": (f"{config}/opencode/opencode.json", f"{config}/opencode/opencode.jsonc"),
        "codex": (f"{homes.codex}/config.toml",),
    }
    return tuple(str(PurePosixPath(path)) for path in by_program[program])


def _of_project(program: Program, project: str) -> tuple[str, ...]:
    by_program: dict[Program, tuple[str, ...]] = {
        "claude": (),
        "claude-code": (".mcp.json",),
        "cursor": (".cursor/mcp.json",),
        "vscode": (".vscode/mcp.json",),
        "opencode": ("opencode.json", "opencode.jsonc"),
        "codex": (".codex/config.toml",),
    }
    return tuple(str(PurePosixPath(project, path)) for path in by_program[program])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an entry is at home."""

    base: str
    """The directory that relative paths start from."""
    workspace: str | None
    """The project that it belongs to; None for one of the user's."""
    home: str


def offers(content: bytes, *, file: str, homes: Homes) -> tuple[Offer, ...]:
    """What a file of another program offers; its settings are left alone.

    Raises:
        BadConfig: The text is neither JSON nor TOML, as the name of the file promises.
    """
    document = _toml(content, file) if file.endswith(".toml") else parse(content)
    place = _place(file, homes)
    at_home = [(entry, place) for entry in shaped(document, file=file).entries]
    elsewhere = _Place(homes.project, homes.project, homes.home)
    projects = [(entry, elsewhere) for entry in _kept_for(homes.project, document, file)]
    unique = {entry.name: (entry, place) for entry, place in reversed([*at_home, *projects])}
    layer = Layer(file, tuple(entry for entry, _ in unique.values()), {}, (), ())
    return tuple(_offer(judged, *unique[judged.name]) for judged in candidates([layer], Defaults()))


def _offer(judged: Candidate, raw: RawEntry, place: _Place) -> Offer:
    if judged.entry is None:
        # Without the file and the place in it: whoever is told sees the name of the server.
        here = dotted(raw.path)
        faults = ((each.path.removeprefix(here).lstrip("."), each.message) for each in judged.problems)
        reason = "; ".join(": ".join(filter(None, fault)) for fault in faults)
        return Offer(judged.name, judged.file, {}, "unusable", reason)
    entry = _entry(raw, place)
    unknown = tuple(dict.fromkeys(each for text in _texts(entry) for each in editor_references(text)))
    if unknown:
        reason = f"needs a value in place of {listed(unknown, joint='and')}, which only an editor can fill in"
        return Offer(judged.name, judged.file, entry, "incomplete", reason)
    return Offer(judged.name, judged.file, entry, "new")


def sorted_out(found: Iterable[Offer], existing: Iterable[str]) -> tuple[Offer, ...]:
    """The offers with those marked that our configuration, or an earlier offer, has already."""
    taken = dict.fromkeys(existing, "the configuration has a server of this name")
    judged: list[Offer] = []
    for offer in found:
        wanted = offer.state in ("new", "incomplete")
        if wanted and offer.name in taken:
            judged.append(Offer(offer.name, offer.source, offer.entry, "exists", taken[offer.name]))
            continue
        if wanted:
            taken[offer.name] = f"offered above, from {offer.source}"
        judged.append(offer)
    return tuple(judged)


def _kept_for(project: str, document: object, file: str) -> tuple[RawEntry, ...]:
    """What Claude Code keeps for one directory only."""
    here: object = document
    for key in ("projects", project):
        here = here.get(key) if is_object(here) else None
    return shaped(here, file=file).entries if is_object(here) else ()


def _place(file: str, homes: Homes) -> _Place:
    """Where the entries of this file are at home; one that is kept in a project is a project's."""
    path = PurePosixPath(file)
    folder = path.parent.parent if path.parent.name in _PROJECT_FOLDERS else path.parent
    users = any(file in _of_user(program, homes) for program in PROGRAMS)
    a_projects = not users and (path.parent != folder or path.name in _PROJECT_FILES)
    return _Place(str(folder), str(folder) if a_projects else None, homes.home)


def _entry(raw: RawEntry, place: _Place) -> dict[str, Any]:
    """The keys that we know, with absolute paths; the transport only where it cannot be guessed."""
    is_remote = raw.keys["type"] == "streamableHttp"
    known = {*spelling(HttpEntry if is_remote else StdioEntry).values()} - {"type"}
    entry = {key: _filled(value, place) for key, value in raw.keys.items() if key in known}
    for key in ("cwd", "envFile"):
        if key in entry:
            entry[key] = _absolute(entry[key], place.base)
    if not is_remote and "cwd" not in entry:
        if "/" in entry["command"]:
            entry["command"] = _absolute(entry["command"], place.base)
        if place.workspace is not None:
            entry["cwd"] = place.workspace
    return entry


def _filled(value: Any, place: _Place) -> Any:
    """The value with what is known of its place, and with the paths of `{file:…}` made absolute."""
    if is_object(value):
        return {key: _filled(each, place) for key, each in value.items()}
    if is_list(value):
        return [_filled(each, place) for each in value]
    if isinstance(value, str):
        filled = _KNOWN_HERE.sub(lambda match: _known(match[1], place) or match[0], value)
        return _RELATIVE_FILE.sub(lambda match: f"{{file:{PurePosixPath(place.base, match[1])}}}", filled)
    return value


def _known(name: str, place: _Place) -> str | None:
    """What an editor would fill in; None when that depends on the project it has open."""
    match name:
        case "userHome":
            return place.home
        case "workspaceFolderBasename":
            return place.workspace and PurePosixPath(place.workspace).name
        case "workspaceFolder" | "workspaceRoot":
            return place.workspace
        case _:
            return "/"


def _texts(value: object) -> Iterator[str]:
    """Every string in the value."""
    if is_object(value):
        for each in value.values():
            yield from _texts(each)
    elif is_list(value):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def _quoted(word: str) -> str:
    """The word as a shell would take it, where it could be mistaken for several or none."""
    return word if word and not re.search(r"\s", word) else shlex.quote(word)


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
