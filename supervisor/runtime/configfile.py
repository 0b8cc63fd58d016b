"""Finding and reading the configuration files, and what they refer to.

`load` reads everything it is told to and answers with one value that holds the servers and all problems;
it never raises for what a file holds, changes nothing, and keeps nothing: what was good last is told to it.
What the files mean is decided in `core.layers`, `core.servers` and `core.frontmatter`; this module is their
eyes.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import Struct, structs

from supervisor.core.agents import FrontMatter
from supervisor.core.document import DocumentError
from supervisor.core.dotenv import DotenvError, parse_dotenv
from supervisor.core.exposure import exposed
from supervisor.core.interpolate import Reference, Unresolved
from supervisor.core.layers import (
    Candidate,
    Layer,
    agent_files,
    candidates,
    configured_agents,
    kept_instead,
    last_with,
    merged_settings,
    read_layer,
    wrong_settings,
)
from supervisor.core.servers import (
    BadServer,
    ConfigFile,
    Loaded,
    Problem,
    ServerSpec,
    Surroundings,
    expand_home,
    specify,
)
from supervisor.core.spec import SupervisorSettings
from supervisor.runtime.trust import Unreadable, Untrusted, read_trusted

__all__ = ["ConfigFile", "Loaded", "config_paths", "config_places", "fingerprint", "load"]

AGENTS_FILE = "AGENTS.md"
"""Where agents are described beside the configuration, unless it names another file."""

Overrides = Callable[[SupervisorSettings], Mapping[str, bool]]
"""Which servers an operator has enabled or disabled; the settings say for which daemon."""


def config_paths(explicit: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to load, absolute, earliest first.

    Those that were named, else `$MCP_CONFIG_PATH`, else the first that exists of the usual places. When none
    of those exists, all of them: each is worth watching for. Ask again before every load.
    """
    places = config_places(explicit, environ)
    if explicit:
        return places
    existing = tuple(place for place in places if _is_there(place))
    return existing[:1] or places


def config_places(explicit: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Every file that `config_paths` may name, today or on another day."""
    if explicit:
        return tuple(Path(path).absolute() for path in explicit)
    if path := environ.get("MCP_CONFIG_PATH"):
        return (Path(path).absolute(),)
    return tuple(_usual_places(environ))


def _usual_places(environ: Mapping[str, str]) -> list[Path]:
    places = [Path("/data/mcp.json"), Path("/etc/mcp-supervisor/mcp.json")]
    home = environ.get("HOME", "")
    # The XDG rules: a relative value is invalid and counts as unset.
    for base in (Path(environ.get("XDG_CONFIG_HOME", "")), Path(home, ".config")):
        if base.is_absolute():
            return [*places, base / "mcp-supervisor" / "mcp.json"]
    return places


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # It is there and cannot be looked at; loading it will tell why.
        return True
    return True


def load(
    paths: Sequence[Path],
    environ: Mapping[str, str],
    *,
    overrides: Overrides = lambda _settings: {},
    last: Loaded | None = None,
) -> Loaded:
    """Everything that the files say; later files shadow earlier ones.

    `overrides` answers, by name, which servers an operator has enabled or disabled, whatever the files say.
    `last` is what is in force: an entry, a setting or an agent that is wrong now stays as it is there, and a
    file of which it was made counts as looked for when it is gone, even if another would be read instead.
    """
    reading = _Reading()
    outcomes = {path: _layer(path, reading) for path in paths}
    found = [ConfigFile(str(path), found=outcome is not None) for path, outcome in outcomes.items()]
    files = [*_vanished(paths, last, reading), *found]
    layers = [outcome for outcome in outcomes.values() if isinstance(outcome, Layer)]
    unusable = [outcome for outcome in outcomes.values() if isinstance(outcome, Problem)]
    settings = merged_settings(layers, None if last is None else last.settings)
    judged = [_with_consequence(each, last) for each in candidates(layers, settings.defaults)]
    place = _agents_place(files, layers, environ, last)
    agents_file, front_matter = _front_matter(place, agent_files(layers, settings), reading)
    if last is not None:
        layers = [replace(each, problems=tuple(kept_instead(each.problems, layers))) for each in layers]
        front_matter = _completed(front_matter, agents_file, last)
    agents = {**front_matter.agents, **configured_agents(layers, settings)}
    parts: list[Layer | Candidate | FrontMatter] = [*layers, *judged, front_matter]
    surroundings = _Around(environ, reading)
    switched, good = overrides(settings), _good(judged, last)
    servers = {
        each.name: surroundings.server(each, good.get(each.name), enabled=switched.get(each.name))
        for each in judged
    }
    return Loaded(
        settings=settings,
        servers=servers,
        problems=(*unusable, *(problem for part in parts for problem in part.problems)),
        notices=(*(notice for part in parts for notice in part.notices), *exposed(servers.values())),
        files=tuple(files),
        unreadable=bool(unusable),
        agents=dict(sorted(agents.items())),
        agents_file=agents_file,
        read=reading.fingerprints(),
        wrong_settings=wrong_settings(layers),
        lost=frozenset(part for layer in layers for part in layer.lost),
        good=good,
    )


def _good(judged: Sequence[Candidate], last: Loaded | None) -> dict[str, Candidate]:
    """The entry of each server that was right last, where one ever was."""
    before: Mapping[str, Candidate] = {} if last is None else last.good
    best = {each.name: each if each.entry is not None else before.get(each.name) for each in judged}
    return {name: each for name, each in best.items() if each is not None}


def _with_consequence(candidate: Candidate, last: Loaded | None) -> Candidate:
    """The candidate, where it is wrong and was right before with what comes of that."""
    if last is None or candidate.name not in last.good:
        return candidate
    kept = "; its last good entry stays in force"
    told = tuple(structs.replace(each, message=each.message + kept) for each in candidate.problems)
    return structs.replace(candidate, problems=told)


def _vanished(paths: Sequence[Path], last: Loaded | None, reading: "_Reading") -> list[ConfigFile]:
    """The files of which the last configuration was made, that are not to be read now and are not there."""
    used = [Path(file.path) for file in last.files if file.found] if last is not None else []
    gone = [path for path in used if path not in paths and not _is_there(path)]
    for path in gone:
        reading.look(path)
    return [ConfigFile(str(path), found=False) for path in gone]


def fingerprint(path: Path) -> str:
    """What `Loaded.read` holds for a file that is as this one is now."""
    return _Reading().look(path).fingerprint


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found when a file was opened."""

    fingerprint: str
    content: bytes | None = field(default=None, repr=False)
    failure: FileNotFoundError | Untrusted | Unreadable | None = None


class _Reading:
    """Reads each file once, so that all who refer to it see the same content, and remembers what it saw."""

    def __init__(self) -> None:
        self._looks: dict[Path, _Look] = {}

    def read(self, path: Path) -> bytes:
        """The content of the file; raises as `read_trusted` does."""
        look = self.look(path)
        if look.failure is not None:
            raise copy(look.failure)
        assert look.content is not None
        return look.content

    def look(self, path: Path) -> _Look:
        if path not in self._looks:
            self._looks[path] = _look(path)
        return self._looks[path]

    def fingerprints(self) -> dict[str, str]:
        return {str(path): look.fingerprint for path, look in self._looks.items()}


def _look(path: Path) -> _Look:
    try:
        content = read_trusted(path)
    except FileNotFoundError as error:
        return _Look("not there", failure=error.with_traceback(None))
    except (Untrusted, Unreadable) as error:
        return _Look(str(error), failure=error.with_traceback(None))
    return _Look(hashlib.sha256(content).hexdigest(), content)


def _layer(path: Path, reading: _Reading) -> Layer | Problem | None:
    """What the file contributes, why nothing of it can be used, or None when there is no file."""
    try:
        return read_layer(reading.read(path), file=str(path))
    except FileNotFoundError:
        return None
    except DocumentError as error:
        return Problem(str(path), "", error.reason, error.line, error.column)
    except (Untrusted, Unreadable) as error:
        return Problem(str(path), "", str(error))


class _AgentsPlace(Struct, frozen=True):
    path: Path
    absence: tuple[Problem, ...] = ()
    """What is wrong when nothing is there."""


def _agents_place(
    files: Sequence[ConfigFile], layers: Sequence[Layer], environ: Mapping[str, str], last: Loaded | None
) -> _AgentsPlace | None:
    """Where to look for agents: where a file says, else beside the last file that is there."""
    layer = last_with(layers, "agentsFile")
    if (
        layer is not None
        and "agentsFile" in layer.wrong
        and last is not None
        and last.agents_file is not None
    ):
        return _AgentsPlace(Path(last.agents_file.path))
    if layer is not None and (written := layer.settings.get("agentsFile")) is not None:
        path = Path(layer.file).parent / expand_home(written, environ.get("HOME"))
        reason = f"names {path}, which is not there; create it or correct the name"
        return _AgentsPlace(path, (Problem(layer.file, "supervisor.agentsFile", reason),))
    found = [each for each in files if each.found] or files
    return _AgentsPlace(Path(found[-1].path).with_name(AGENTS_FILE)) if found else None


def _front_matter(
    place: _AgentsPlace | None, taken: Mapping[str, str], reading: _Reading
) -> tuple[ConfigFile | None, FrontMatter]:
    if place is None:
        return None, FrontMatter({})
    file = str(place.path)
    try:
        content = reading.read(place.path)
    except FileNotFoundError:
        return ConfigFile(file, found=False), FrontMatter({}, place.absence)
    except (Untrusted, Unreadable) as error:
        return ConfigFile(file, found=True), FrontMatter({}, (Problem(file, "", str(error)),))
    # It loads PyYAML, which most daemons never need.
    from supervisor.core.frontmatter import read_agents

    return ConfigFile(file, found=True), read_agents(content, file=file, taken=taken)


def _completed(found: FrontMatter, file: ConfigFile | None, last: Loaded) -> FrontMatter:
    """What a file contributes of which a part is wrong: the agents that cannot be read stay as they were."""
    if not found.problems or file is None:
        return found
    kept = {name: agent for name, agent in last.agents.items() if agent.source == file.path}
    problems = (
        structs.replace(each, message=f"{each.message}; its last good agents stay") for each in found.problems
    )
    return FrontMatter({**kept, **found.agents}, tuple(problems), found.notices)


@dataclass(frozen=True, slots=True)
class _Around:
    """What all entries have around them: the daemon's environment, and files."""

    environ: Mapping[str, str] = field(repr=False)
    reading: _Reading

    def server(
        self, candidate: Candidate, good: Candidate | None, *, enabled: bool | None
    ) -> ServerSpec | BadServer:
        """The server, as its entry says or as it said when it was right last."""
        if good is None or good.entry is None:
            return BadServer(candidate.name, candidate.file, candidate.shadows, candidate.problems)
        directory = Path(good.file).parent
        sources = _Sources(directory, self.environ, self.reading)
        spec = specify(
            good.name,
            good.entry,
            Surroundings(str(directory), self.environ, sources.resolve, sources.env_file),
            source=good.file,
            shadows=good.shadows,
            enabled=enabled,
        )
        return replace(spec, problems=candidate.problems) if candidate.problems else spec


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where references get their values from, for the entries of one file."""

    directory: Path
    environ: Mapping[str, str] = field(repr=False)
    reading: _Reading

    def resolve(self, reference: Reference) -> str | None:
        match reference.kind:
            case "file":
                path = expand_home(reference.name, self.environ.get("HOME"))
                return self._text(self.directory / path, reference)
            case "credential":
                return self._credential(reference)
            case "supervisor":
                return _own(reference)
            case _:
                return self.environ.get(reference.name)

    def env_file(self, path: str) -> Mapping[str, str]:
        content = self._content(Path(path))
        if content is None:
            raise Unresolved(f"envFile {path} is not there; create it or correct the name")
        try:
            return parse_dotenv(content)
        except DotenvError as error:
            raise Unresolved(f"envFile {path} cannot be used: {error}") from error

    def _credential(self, reference: Reference) -> str | None:
        if "/" in reference.name:
            raise Unresolved(f"{reference.written} must be the name of a credential, without a slash")
        directory = self.environ.get("CREDENTIALS_DIRECTORY")
        return self._text(Path(directory, reference.name), reference) if directory else None

    def _text(self, path: Path, reference: Reference) -> str | None:
        """The file as a value: without the line break that editors put at its end."""
        content = self._content(path)
        if content is None:
            return None
        try:
            return content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise Unresolved(f"{reference.written} is not UTF-8 text; save it as UTF-8") from None

    def _content(self, path: Path) -> bytes | None:
        try:
            return self.reading.read(path)
        except FileNotFoundError:
            return None
        except (Untrusted, Unreadable) as error:
            raise Unresolved(str(error)) from error


def _own(reference: Reference) -> str:
    if reference.name != "python":
        raise Unresolved(f"{reference.written} is not known; only ${{supervisor:python}} is")
    return sys.executable
