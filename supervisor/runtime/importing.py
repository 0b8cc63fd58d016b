"""Finding the servers that other programs have configured on this machine.

Their files are read by the same rules as our own: nobody else may have written them. Nothing of them is
changed, and nothing is added here: what a person picked goes to `editing.add`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor.core.imports import PROGRAMS, Homes, Offer, Program, offers, places, sorted_out
from supervisor.errors import BadConfig
from supervisor.runtime.trust import read_trusted


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and where nothing could be read."""

    offers: tuple[Offer, ...]
    files: tuple[str, ...]
    """The files that were there."""
    problems: tuple[str, ...]


def find(
    source: str | None, environ: Mapping[str, str], *, existing: Collection[str], project: Path
) -> Found:
    """The servers of a program, of a file, or of every known program when `source` is None.

    `existing` are the servers that our configuration has; `project` is the directory the user is in.

    Raises:
        BadConfig: A file was named that is not there.
    """
    found: list[Offer] = []
    files: list[str] = []
    problems: list[str] = []
    homes = _homes(environ, project)
    for file in _files(source, homes):
        try:
            content = read_trusted(Path(file))
            files.append(file)
            found += offers(content, file=file, homes=homes)
        except FileNotFoundError:
            continue
        except BadConfig as error:
            problems.append(_about(file, error))
    return Found(sorted_out(found, existing), tuple(files), tuple(problems))


def _about(file: str, error: BadConfig) -> str:
    sentence = str(error)
    return sentence if file in sentence else f"{file}: {sentence}"


def _files(source: str | None, homes: Homes) -> tuple[str, ...]:
    programs: list[Program] = [program for program in PROGRAMS if source in {None, program}]
    if programs:
        return tuple(file for program in programs for file in places(program, homes))
    assert source is not None
    file = Path(homes.project, source)
    if not file.exists():
        known = ", ".join(PROGRAMS)
        raise BadConfig(f"cannot import from {source}: there is no such file; the known programs are {known}")
    return (str(file),)


def _homes(environ: Mapping[str, str], project: Path) -> Homes:
    home = environ.get("HOME", "/")
    config = environ.get("XDG_CONFIG_HOME", "")
    return Homes(
        home=home,
        config=config if config.startswith("/") else f"{home}/.config",
        codex=environ.get("CODEX_HOME") or f"{home}/.codex",
        project=str(project),
    )
