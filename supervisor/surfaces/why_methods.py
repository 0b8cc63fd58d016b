"""`servers/why`: one server explained in one screen.

Gathers what is known (the entry, the file system as the server's start would see it, the last run, the log)
and has `core.diagnosis` say what it means. Only looks: it starts nothing, runs no shell and shows no secret.
Loaded when somebody asks: it knows much that a daemon seldom needs.
"""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from supervisor.core.diagnosis import diagnose
from supervisor.core.facts import (
    Absent,
    Facts,
    Found,
    Lookup,
    NoDirectory,
    NoInterpreter,
    NotExecutable,
    RunEnd,
    missing_variables,
    not_inherited,
)
from supervisor.core.interpolate import is_literal
from supervisor.core.ringlog import Line
from supervisor.core.servers import BadServer, ServerSpec
from supervisor.core.spec import HttpEntry, StdioEntry
from supervisor.core.view import ExitView, ServerDetail
from supervisor.runtime.member import Member
from supervisor.runtime.process import CannotStart, Command, find_executable
from supervisor.surfaces.explanation import LaunchView, Moment, Noise, SearchedDirectory, Why
from supervisor.surfaces.server_methods import ServerParams, StderrLine
from supervisor.surfaces.service import Caller, Service

STDERR_SHOWN = 20
SAMPLES_SHOWN = 5
LINES_READ = 200
"""How far back the log is searched for what explains something."""
NOISE_MARK = "(on stdout, not MCP) "
"""How the log marks what was no message on standard output."""

_FIRST_LINE = 256
"""Bytes of a script's first line that the kernel reads."""


def why(service: Service, params: ServerParams, _caller: Caller) -> Why:
    """Everything that explains why a server is as it is.

    Raises:
        UnknownServer: there is none of that name.
    """
    member, detail = service.fleet.member(params.server), service.fleet.detail(params.server)
    facts = _facts(member, detail)
    return Why(
        server=member.name,
        state=detail.state,
        phase=detail.phase,
        reason=detail.reason,
        since=detail.since,
        suggestions=diagnose(facts),
        source=detail.source,
        transport=detail.transport,
        problems=_problems(service, member),
        missing_variables=(*facts.missing, *facts.not_inherited),
        launch=_launch(member, detail, facts.lookup),
        protocol=detail.protocol,
        timeline=_moments(detail),
        ends=detail.ends,
        stderr=tuple(StderrLine(line.at, line.text) for line in _stderr(member)[-STDERR_SHOWN:]),
        noise=Noise(facts.noise, facts.samples),
        next_try=detail.next_try,
    )


def _problems(service: Service, member: Member) -> tuple[str, ...]:
    """What is wrong with its entry, whether or not it runs as that said when it was right."""
    spec = service.loaded.servers.get(member.name, member.spec)
    return tuple(map(str, spec.problems))


def _facts(member: Member, detail: ServerDetail) -> Facts:
    spec, entry = member.spec, member.entry
    spawned = detail.timeline[0][1] if detail.timeline else 0.0
    # A run may speak a little before we note that it was spawned, but never before the last one ended.
    since = max((end.at for end in detail.ends if end.at < spawned), default=0.0)
    process = entry if isinstance(entry, StdioEntry) else None
    return Facts(
        server=member.name,
        phase=member.actor.state.phase,
        reason=detail.reason,
        enabled=member.enabled,
        problems=tuple(map(str, spec.problems)) if isinstance(spec, BadServer) else (),
        behind=detail.behind,
        trouble=spec.trouble if isinstance(spec, ServerSpec) else None,
        missing=() if entry is None else missing_variables(entry, member.environ),
        not_inherited=() if entry is None else not_inherited(entry, member.environ),
        argv=() if process is None else tuple(map(member.redact, (process.command, *process.args))),
        remote=isinstance(entry, HttpEntry),
        lookup=None if member.command is None else _look_up(member.command, member.redact),
        protocol="auto" if entry is None else entry.protocol,
        framing="newline" if process is None else process.framing,
        start_timeout=member.actor.policy.start_timeout,
        restart=member.actor.policy.restart.mode,
        reached=tuple(what for what, _ in detail.timeline),
        ends=tuple(_end(end, spawned) for end in detail.ends),
        stderr=tuple(line.text for line in _stderr(member) if line.at > since),
        noise=detail.noise,
        samples=_samples(member, since=since),
        tools=detail.tools,
        left_out=Counter(entry["cause"] for entry in detail.left_out),
    )


def _end(end: ExitView, spawned: float) -> RunEnd:
    """How long a run lived is known of the last one only, whose timeline is kept."""
    return RunEnd(end.reason, end.code, end.signal, end.at - spawned if 0 < spawned <= end.at else None)


def _stderr(member: Member) -> tuple[Line, ...]:
    return tuple(line for line in member.log.tail(LINES_READ) if not line.text.startswith(NOISE_MARK))


def _samples(member: Member, *, since: float) -> tuple[str, ...]:
    lines = (line.text for line in member.log.tail(LINES_READ) if line.at > since)
    noise = [text.removeprefix(NOISE_MARK) for text in lines if text.startswith(NOISE_MARK)]
    return tuple(noise[-SAMPLES_SHOWN:])


def _moments(detail: ServerDetail) -> tuple[Moment, ...]:
    return tuple(Moment(what, at, at - detail.timeline[0][1]) for what, at in detail.timeline)


# What a start would find.


def _launch(member: Member, detail: ServerDetail, lookup: Lookup | None) -> LaunchView | None:
    entry, command = member.entry, member.command
    if not isinstance(entry, StdioEntry):
        return None
    cwd = entry.cwd if command is None else command.cwd
    return LaunchView(
        command=member.redact(entry.command),
        args=tuple(map(member.redact, entry.args)),
        executable=_named(member, entry) if command is None else _executable(lookup),
        cwd=None if cwd is None else member.redact(cwd),
        environment=detail.environment,
        path=() if command is None else _searched(command, member.redact),
    )


def _executable(lookup: Lookup | None) -> str | None:
    match lookup:
        case Found(path=path) | NotExecutable(path=path) | NoInterpreter(path=path):
            return path
        case NoDirectory(executable=path):
            return path
        case Absent() | None:
            return None
    assert_never(lookup)


def _named(member: Member, entry: StdioEntry) -> str | None:
    """The program that an entry names without any reference, while nothing is filled in for a start."""
    path = entry.env.get("PATH", member.environ.get("PATH", os.defpath))
    relative = "/" in entry.command and not entry.command.startswith("/")
    if relative or not (is_literal(entry.command) and is_literal(path)):
        return None
    found = shutil.which(entry.command, os.F_OK, path)
    return None if found is None else member.redact(found)


def _searched(command: Command, redact: Callable[[str], str]) -> tuple[SearchedDirectory, ...]:
    directories = dict.fromkeys(_search_path(command).split(os.pathsep))
    return tuple(SearchedDirectory(redact(each), _is_directory(each)) for each in directories)


def _search_path(command: Command) -> str:
    return command.env.get("PATH", os.defpath)


def _look_up(command: Command, redact: Callable[[str], str]) -> Lookup:
    try:
        executable = find_executable(command)
    except (CannotStart, OSError):
        there = shutil.which(command.argv[0], os.F_OK, _search_path(command))
        return Absent(redact(command.argv[0])) if there is None else NotExecutable(redact(there))
    if command.cwd is not None and not _is_directory(command.cwd):
        return NoDirectory(redact(command.cwd), redact(executable))
    interpreter = _missing_interpreter(executable, _search_path(command))
    if interpreter is not None:
        return NoInterpreter(redact(executable), interpreter)
    return Found(redact(executable))


def _missing_interpreter(executable: str, path: str) -> str | None:
    """The program that the first line of a script names, if it is not there; `env` looks for it on PATH."""
    match _first_line(executable).split():
        case [interpreter, *_] if shutil.which(interpreter) is None:
            return interpreter
        case [interpreter, program] if Path(interpreter).name == "env" and not shutil.which(
            program, path=path
        ):
            return program
        case _:
            return None


def _first_line(executable: str) -> str:
    """What follows `#!` in a script; empty for any other file."""
    with contextlib.suppress(OSError):
        # Anything but a plain file, such as a pipe, could make us wait.
        if Path(executable).is_file():
            with Path(executable).open("rb") as file:
                line = file.readline(_FIRST_LINE)
            return line[2:].decode(errors="replace") if line.startswith(b"#!") else ""
    return ""


def _is_directory(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:
        return False
