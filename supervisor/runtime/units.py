"""The units of systemd for this installation: what they say, where they go, and putting them there.

The texts are the files in `systemd/`, with the path of this program in place of the usual one. Nothing is
written before all of it is known, and whoever only wants to look writes nothing.
"""

import os
import re
import shutil
import subprocess  # noqa: TID251 - systemctl, asked once by the installer; no child of the daemon
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.errors import SupervisorError

NAME = "mcp-supervisor"
_USUAL_PROGRAM = f"/usr/bin/{NAME}"
_SYSTEM_DIRECTORY = Path("/etc/systemd/system")
_PRIVATE = ("/home", "/root", "/run/user")
"""What `ProtectHome=yes` hides."""
_PLAIN = re.compile(r"[\w/.+@-]+")
_PATIENCE = 120


class CannotInstall(SupervisorError):
    """The units could not be put in place."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What is to be done, in order."""

    files: Mapping[Path, str]
    commands: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """What a dry run prints."""
        written = [f"# {path}\n{text}" for path, text in self.files.items()]
        return "\n".join((*written, "# then", *(f"# {' '.join(command)}" for command in self.commands)))


def plan(*, user: bool, environ: Mapping[str, str], program: Path | None = None) -> Installation:
    """How to install the daemon as a service of the system, or of the user who asks.

    Raises:
        CannotInstall: this program is not where a unit could name it.
    """
    path = _program() if program is None else program
    if not _PLAIN.fullmatch(str(path)):
        raise CannotInstall(f"cannot write {str(path)!r} into a unit; install the program at a plainer path")
    systemctl = ("systemctl", "--user") if user else ("systemctl",)
    names = (f"user/{NAME}.service",) if user else (f"{NAME}.socket", f"{NAME}.service")
    directory = _user_directory(environ) if user else _SYSTEM_DIRECTORY
    files = {directory / Path(name).name: _text(name, path) for name in names}
    started = tuple(file.name for file in files)
    return Installation(files, ((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", *started)))


def install(installation: Installation) -> None:
    """Write the units and have systemd start them.

    Raises:
        CannotInstall: a file could not be written, or systemd refused.
    """
    for path, text in installation.files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as exc:
            advice = "use sudo, or --user for a service of your own"
            raise CannotInstall(f"cannot write {path}: {exc.strerror}; {advice}") from exc
    for command in installation.commands:
        _run(command)


def _run(command: Sequence[str]) -> None:
    told = " ".join(command)
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise CannotInstall(f"cannot run {told}: {exc}; the units are written, run it yourself") from exc
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit status {done.returncode}"
        raise CannotInstall(f"cannot finish: {told} says {said}; the units are written")


def _text(name: str, program: Path) -> str:
    text = (_source() / name).read_text(encoding="utf-8").replace(_USUAL_PROGRAM, str(program))
    if any(place.is_relative_to(private) for place in _needed(program) for private in _PRIVATE):
        text = text.replace("ProtectHome=yes", "ProtectHome=read-only")
    return text


def _needed(program: Path) -> tuple[Path, ...]:
    """Where the program and its interpreter really are."""
    return (program, program.resolve(), Path(sys.executable).resolve())


def _source() -> Path:
    """The units: beside the package's modules when it was installed, in the repository when not."""
    packaged = Path(__file__).parents[1] / "systemd"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "systemd"


def _program() -> Path:
    beside = Path(sys.executable).with_name(NAME)
    found = str(beside) if beside.exists() else shutil.which(NAME)
    if found is None:
        raise CannotInstall(f"cannot find the program {NAME}; install the package first")
    return Path(os.path.abspath(found))  # noqa: PTH100 - a link stays a link


def _user_directory(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("HOME", "~")).expanduser()
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "systemd", "user")
