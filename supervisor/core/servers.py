"""A configured server as the rest of the daemon sees it: what to start or reach, or why that cannot be.

`specify` turns a judged entry into a `ServerSpec`, filling in the references of its strings through a
`Surroundings` that the caller gives. Values that must not be seen are `Text`, and are gathered in `secrets`,
so that whoever shows the output of a child can blot them out. Nothing here starts, reads or connects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from posixpath import normpath
from typing import assert_never
from urllib.parse import quote

from msgspec import Struct, structs

from supervisor.core.agents import Agent
from supervisor.core.interpolate import (
    PUBLIC_VARIABLES,
    Missing,
    MissingReferences,
    Resolve,
    Text,
    Unresolved,
    interpolate,
    is_literal,
    trouble,
)
from supervisor.core.layers import Candidate
from supervisor.core.problems import Notice, Problem
from supervisor.core.ringlog import Redactor
from supervisor.core.spec import Entry, HttpEntry, StdioEntry, SupervisorSettings, check_root, check_url

__all__ = [
    "BadServer",
    "ConfigFile",
    "Endpoint",
    "Launch",
    "Loaded",
    "Notice",
    "Problem",
    "ServerSpec",
    "Surroundings",
    "child_environment",
    "expand_home",
    "specify",
]

CONCEALED = "***"

_DAEMON_ONLY = ("NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY")
_DAEMON_ONLY_PREFIXES = ("LISTEN_", "WATCHDOG_")


class Launch(Struct, frozen=True):
    """A child process to be started."""

    command: Text
    args: tuple[Text, ...]
    env: Mapping[str, Text]
    cwd: Text | None
    inherit_env: tuple[str, ...]


class Endpoint(Struct, frozen=True):
    """A Streamable HTTP server to be reached."""

    url: Text
    headers: Mapping[str, Text]
    ca_file: str | None = None
    """Certificates to trust beside the system's."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server whose entry is right; `target` is None when it is disabled or in trouble."""

    name: str
    entry: Entry
    target: Launch | Endpoint | None
    trouble: str | None
    """Why it cannot be started as things are, although nothing is wrong with the entry."""
    source: str
    """The file that describes it."""
    shadows: tuple[str, ...]
    """Earlier files that describe a server of this name too."""
    secrets: frozenset[str] = field(repr=False)
    overridden: bool = False
    """Whether an operator, and not the file, has said if it is enabled."""
    roots: tuple[Text, ...] | None = None
    """Addresses of what it is told to work in; None when it is told nothing."""
    problems: tuple[Problem, ...] = field(default=(), compare=False)
    """What is wrong with its entry as it stands now, so that this is the last good one; changes nothing."""


class BadServer(Struct, frozen=True):
    """A server whose entry is wrong; it is listed and never started."""

    name: str
    source: str
    shadows: tuple[str, ...]
    problems: tuple[Problem, ...]


class ConfigFile(Struct, frozen=True):
    path: str
    found: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that the configuration files say, all problems included."""

    settings: SupervisorSettings
    servers: Mapping[str, ServerSpec | BadServer]
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    files: tuple[ConfigFile, ...]
    unreadable: bool
    """Whether a file is there of which nothing could be used."""
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    """By name."""
    agents_file: ConfigFile | None = None
    """Where the front matter was looked for; None when there was nowhere to look."""
    read: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Every file that was looked for, by path, with a fingerprint of what was there, be it nothing."""
    wrong_settings: frozenset[str] = frozenset()
    """Keys of `supervisor` that are wrong, so that what was good last is in force, or the default."""
    lost: frozenset[str] = frozenset()
    """Parts of files that are there and of which nothing could be read."""
    good: Mapping[str, Candidate] = field(default_factory=dict[str, Candidate], repr=False)
    """Every server whose entry is right, or once was, with the entry that was right last."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an entry can refer to beyond itself."""

    directory: str
    """The absolute directory of the configuration file, where relative paths start."""
    environ: Mapping[str, str] = field(repr=False)
    """The daemon's environment, for `~` and for what is no secret."""
    resolve: Resolve
    read_env_file: Callable[[str], Mapping[str, str]]
    """The variables of the file at this absolute path; raises `Unresolved` when it cannot be used."""


def child_environment(launch: Launch, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: the usual few variables, those it inherits by name, and its own.

    What systemd gives to the daemon alone never passes by inheritance.
    """
    inherited = [name for name in launch.inherit_env if not _is_daemon_only(name)]
    passed = {name: environ[name] for name in (*sorted(PUBLIC_VARIABLES), *inherited) if name in environ}
    return passed | {name: text.value for name, text in launch.env.items()}


def _is_daemon_only(name: str) -> bool:
    return name in _DAEMON_ONLY or name.startswith(_DAEMON_ONLY_PREFIXES)


def expand_home(path: str, home: str | None) -> str:
    """The path with a leading `~` replaced; other users' homes are not looked up."""
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return path


def specify(
    name: str,
    entry: Entry,
    surroundings: Surroundings,
    *,
    source: str,
    shadows: tuple[str, ...],
    enabled: bool | None = None,
) -> ServerSpec:
    """The server with its references filled in; a disabled one is left as it is written.

    `enabled` is the word of an operator, which counts more than that of the file.
    """
    overridden = enabled is not None
    if overridden:
        entry = entry.but(enabled=enabled)
    written = _written_secrets(entry, surroundings.environ)
    spec = ServerSpec(name, entry, None, None, source, shadows, written, overridden)
    if not entry.enabled:
        return spec
    filling = _Filling(surroundings)
    target, roots = filling.target(entry), filling.roots(entry.roots)
    if filling.missing or filling.wrong:
        reasons = [*filter(None, [trouble(filling.missing)]), *filling.wrong]
        return replace(spec, trouble="; ".join(reasons))
    secrets = _secrets(target, roots or (), surroundings.environ)
    return replace(spec, target=_blotted(target, secrets), roots=roots, secrets=secrets)


def _blotted(target: Launch | Endpoint, secrets: frozenset[str]) -> Launch | Endpoint:
    """The target, shown without the secrets that somebody wrote there a second time."""
    redact = Redactor(secrets)

    def blot(text: Text) -> Text:
        return structs.replace(text, shown=redact(text.shown))

    match target:
        case Launch(command=command, args=args, cwd=cwd):
            shown_cwd = None if cwd is None else blot(cwd)
            return structs.replace(target, command=blot(command), args=tuple(map(blot, args)), cwd=shown_cwd)
        case Endpoint(url=url):
            return structs.replace(target, url=blot(url))
    assert_never(target)


def _secrets(
    target: Launch | Endpoint, roots: tuple[Text, ...], environ: Mapping[str, str]
) -> frozenset[str]:
    """What was inserted and the values of variables and headers, but for what children get anyway."""
    if isinstance(target, Launch):
        concealed = [text for name, text in target.env.items() if name not in PUBLIC_VARIABLES]
        texts = [target.command, *target.args, *filter(None, [target.cwd]), *target.env.values()]
    else:
        concealed = list(target.headers.values())
        texts = [target.url, *concealed]
    inserted = {secret for text in (*texts, *roots) for secret in text.secrets}
    return _without_public(inserted | {text.value for text in concealed}, environ)


def _written_secrets(entry: Entry, environ: Mapping[str, str]) -> frozenset[str]:
    """The values of variables and headers that stand in the entry as they are."""
    if isinstance(entry, StdioEntry):
        written = [value for name, value in entry.env.items() if name not in PUBLIC_VARIABLES]
    else:
        written = list(entry.headers.values())
    return _without_public(set(filter(is_literal, written)), environ)


def _without_public(values: set[str], environ: Mapping[str, str]) -> frozenset[str]:
    return frozenset(values - {environ[name] for name in PUBLIC_VARIABLES if name in environ} - {""})


class _Filling:
    """Fills in the strings of one entry and gathers everything that stands in the way."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.home = surroundings.environ.get("HOME")
        self.missing: list[Missing] = []
        self.wrong: list[str] = []

    def target(self, entry: Entry) -> Launch | Endpoint:
        match entry:
            case StdioEntry():
                return self._launch(entry)
            case HttpEntry():
                return self._endpoint(entry)
        assert_never(entry)

    def _launch(self, entry: StdioEntry) -> Launch:
        cwd = None if entry.cwd is None else self._directory(entry.cwd)
        return Launch(
            command=self._command(entry.command, cwd),
            args=tuple(self._text(argument, "an argument") for argument in entry.args),
            env=self._env_file(entry.env_file) | self._concealed(entry.env, "variable"),
            cwd=cwd,
            inherit_env=entry.inherit_env,
        )

    def _endpoint(self, entry: HttpEntry) -> Endpoint:
        url = self._text(entry.url, "url")
        headers = self._concealed(entry.headers, "header")
        if not self.missing:
            self._check_endpoint(url, headers)
        return Endpoint(url, headers, None if entry.ca_file is None else self._absolute(entry.ca_file))

    def roots(self, templates: tuple[str, ...] | None) -> tuple[Text, ...] | None:
        return None if templates is None else tuple(map(self._root, templates))

    def _root(self, template: str) -> Text:
        """The root as an address, without detours: servers compare by the beginning."""
        text = self._text(template, "a root")
        try:
            check_root(text.value)
        except ValueError as error:
            self.wrong.append(f"a root {error} once it is filled in")
        if text.value.startswith("file:"):
            return text
        return structs.replace(text, value="file://" + quote(normpath(self._absolute(text.value))))

    def _check_endpoint(self, url: Text, headers: Mapping[str, Text]) -> None:
        try:
            check_url(url.value)
        except ValueError as error:
            self.wrong.append(f"url {error} once it is filled in")
        broken = (name for name, text in headers.items() if "\n" in text.value or "\r" in text.value)
        self.wrong.extend(f"header {name} holds a line break once it is filled in" for name in broken)

    def _text(self, template: str, what: str) -> Text:
        try:
            text = interpolate(template, self.surroundings.resolve)
        except MissingReferences as error:
            self.missing.extend(error.missing)
            return Text("", template)
        if "\0" in text.value:
            self.wrong.append(f"{what} holds a NUL character once it is filled in")
        return text

    def _concealed(self, templates: Mapping[str, str], what: str) -> dict[str, Text]:
        return {
            name: structs.replace(self._text(template, f"{what} {name}"), shown=CONCEALED)
            for name, template in templates.items()
        }

    def _directory(self, template: str) -> Text:
        text = self._text(template, "cwd")
        return structs.replace(text, value=self._absolute(text.value))

    def _command(self, template: str, cwd: Text | None) -> Text:
        """The command; a path is made absolute, a bare name is left for PATH."""
        text = self._text(template, "command")
        path = expand_home(text.value, self.home)
        if not path and not self.missing:
            self.wrong.append(f"command is empty once {template} is filled in")
        if "/" in path:
            base = self.surroundings.directory if cwd is None else cwd.value
            path = str(PurePosixPath(base, path))
        return structs.replace(text, value=path)

    def _env_file(self, path: str | None) -> dict[str, Text]:
        if path is None:
            return {}
        try:
            variables = self.surroundings.read_env_file(self._absolute(path))
        except Unresolved as error:
            self.wrong.append(str(error))
            return {}
        return {name: Text(value, CONCEALED) for name, value in variables.items()}

    def _absolute(self, path: str) -> str:
        return str(PurePosixPath(self.surroundings.directory, expand_home(path, self.home)))
