"""Finding and reading the configuration files, and what they refer to.

`load` reads everything it is told to and answers with one value that holds the servers and all problems;
it never raises for what a file holds, changes nothing, and keeps nothing. What the files mean is decided in
`core.layers` and `core.servers`; this module is their eyes.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.core.document import DocumentError
from supervisor.core.dotenv import DotenvError, parse_dotenv
from supervisor.core.interpolate import Reference, Unresolved
from supervisor.core.layers import Candidate, Layer, candidates, merged_settings, read_layer
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
from supervisor.runtime.trust import Unreadable, Untrusted, read_trusted

__all__ = ["ConfigFile", "Loaded", "config_paths", "load"]


def config_paths(explicit: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to load, absolute, earliest first.

    Those that were named, else `$MCP_CONFIG_PATH`, else the first that exists of the usual places. When none
    of those exists, all of them: each is worth watching for. Ask again before every load.
    """
    if explicit:
        return tuple(Path(path).absolute() for path in explicit)
    if path := environ.get("MCP_CONFIG_PATH"):
        return (Path(path).absolute(),)
    usual = _usual_places(environ)
    existing = [place for place in usual if _is_there(place)]
    return tuple(existing[:1] or usual)


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


def load(paths: Sequence[Path], environ: Mapping[str, str]) -> Loaded:
    """Everything that the files say; later files shadow earlier ones."""
    files: list[ConfigFile] = []
    layers: list[Layer] = []
    unusable: list[Problem] = []
    for path in paths:
        outcome = _layer(path)
        files.append(ConfigFile(str(path), found=outcome is not None))
        if isinstance(outcome, Layer):
            layers.append(outcome)
        elif outcome is not None:
            unusable.append(outcome)
    settings = merged_settings(layers)
    judged = candidates(layers, settings.defaults)
    parts: list[Layer | Candidate] = [*layers, *judged]
    return Loaded(
        settings=settings,
        servers={each.name: _server(each, environ) for each in judged},
        problems=(*unusable, *(problem for part in parts for problem in part.problems)),
        notices=tuple(notice for part in parts for notice in part.notices),
        files=tuple(files),
        unreadable=bool(unusable),
    )


def _layer(path: Path) -> Layer | Problem | None:
    """What the file contributes, why nothing of it can be used, or None when there is no file."""
    try:
        return read_layer(read_trusted(path), file=str(path))
    except FileNotFoundError:
        return None
    except DocumentError as error:
        return Problem(str(path), "", error.reason, error.line, error.column)
    except (Untrusted, Unreadable) as error:
        return Problem(str(path), "", str(error))


def _server(candidate: Candidate, environ: Mapping[str, str]) -> ServerSpec | BadServer:
    if candidate.entry is None:
        return BadServer(candidate.name, candidate.file, candidate.shadows, candidate.problems)
    directory = Path(candidate.file).parent
    surroundings = Surroundings(str(directory), environ, _Sources(directory, environ).resolve, _env_file)
    return specify(
        candidate.name, candidate.entry, surroundings, source=candidate.file, shadows=candidate.shadows
    )


def _env_file(path: str) -> Mapping[str, str]:
    content = _content(Path(path))
    if content is None:
        raise Unresolved(f"envFile {path} is not there; create it or correct the name")
    try:
        return parse_dotenv(content)
    except DotenvError as error:
        raise Unresolved(f"envFile {path} cannot be used: {error}") from error


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where references get their values from, for the entries of one file."""

    directory: Path
    environ: Mapping[str, str] = field(repr=False)

    def resolve(self, reference: Reference) -> str | None:
        match reference.kind:
            case "file":
                path = expand_home(reference.name, self.environ.get("HOME"))
                return _text(self.directory / path, reference)
            case "credential":
                return self._credential(reference)
            case "supervisor":
                return _own(reference)
            case _:
                return self.environ.get(reference.name)

    def _credential(self, reference: Reference) -> str | None:
        if "/" in reference.name:
            raise Unresolved(f"{reference.written} must be the name of a credential, without a slash")
        directory = self.environ.get("CREDENTIALS_DIRECTORY")
        return _text(Path(directory, reference.name), reference) if directory else None


def _own(reference: Reference) -> str:
    if reference.name != "python":
        raise Unresolved(f"{reference.written} is not known; only ${{supervisor:python}} is")
    return sys.executable


def _text(path: Path, reference: Reference) -> str | None:
    """The file as a value: without the line break that editors put at its end."""
    content = _content(path)
    if content is None:
        return None
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Unresolved(f"{reference.written} is not UTF-8 text; save it as UTF-8") from None


def _content(path: Path) -> bytes | None:
    try:
        return read_trusted(path)
    except FileNotFoundError:
        return None
    except (Untrusted, Unreadable) as error:
        raise Unresolved(str(error)) from error
