"""From the texts of several configuration files to one set of settings and server entries.

A later file shadows an earlier one by server name, and its `supervisor` object wins key by key. One wrong
entry costs that server, one wrong setting costs that setting, and one wrong agent that agent; all are
reported. What was good last holds instead; where nothing was, the default does, but for the guards: nobody
knows then what they were to keep out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, structs

from supervisor.core.agents import Agent
from supervisor.core.document import is_object, parse
from supervisor.core.problems import Invalid, Notice, Path, Problem, from_validation, unknown_keys
from supervisor.core.reading import spelling
from supervisor.core.shapes import RawEntry, shaped
from supervisor.core.spec import Defaults, Entry, HttpEntry, StdioEntry, SupervisorSettings

GUARDS = frozenset({"policy", "defaults"})
"""The settings that say which tools may be called, for all servers: no default can stand for them."""

_KEPT = "; what was good last stays in force"
_SETTING = re.compile(r"supervisor\.(\w+)")


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file contributes."""

    file: str
    entries: tuple[RawEntry, ...]
    settings: Mapping[str, Any] = field(repr=False)
    """The keys of its `supervisor` object that are right."""
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    agent_names: frozenset[str] = frozenset()
    """The agents that it describes, rightly or wrongly."""
    wrong: frozenset[str] = frozenset()
    """The keys of its `supervisor` object that are wrong."""
    lost: frozenset[str] = frozenset()
    """The parts of which nothing could be read."""


class Candidate(Struct, frozen=True):
    """A server after all files have spoken; `entry` is None when there are problems with it."""

    name: str
    file: str
    shadows: tuple[str, ...]
    entry: Entry | None
    problems: tuple[Problem, ...] = ()
    notices: tuple[Notice, ...] = ()


def read_layer(content: bytes, *, file: str) -> Layer:
    """The layer of one file.

    Raises:
        supervisor.core.document.DocumentError: The text is not a document; nothing of it can be used.
    """
    document = shaped(parse(content), file=file)
    settings, problems = _right_settings(document.settings, file)
    everything = spelling(SupervisorSettings).values() if "supervisor" in document.lost else ()
    notices = unknown_keys(document.settings, SupervisorSettings, file=file, path=("supervisor",))
    agents = document.settings.get("agents")
    return Layer(
        file=file,
        entries=document.entries,
        settings=settings,
        problems=(*document.problems, *problems),
        notices=(*document.notices, *notices),
        agent_names=frozenset(agents if is_object(agents) else ()),
        wrong=frozenset((*(key for key in document.settings if key not in settings), *everything)),
        lost=document.lost,
    )


def _right_settings(raw: Mapping[str, Any], file: str) -> tuple[Mapping[str, Any], tuple[Problem, ...]]:
    try:
        SupervisorSettings.read(raw)
    except Invalid as error:
        wrong = {fault.path[0] for fault in error.faults}
        wrong_agents = {fault.path[1] for fault in error.faults if _is_in_an_agent(fault.path)}
        right = {key: value for key, value in raw.items() if key not in wrong}
        if wrong_agents:
            agents = raw["agents"].items()
            right["agents"] = {name: patterns for name, patterns in agents if name not in wrong_agents}
        return right, from_validation(error, file=file, path=("supervisor",))
    return raw, ()


def _is_in_an_agent(place: Path) -> bool:
    return place[0] == "agents" and len(place) > 1


def merged_settings(layers: Sequence[Layer], last: SupervisorSettings | None = None) -> SupervisorSettings:
    """The daemon's settings: key by key, the last file that sets a key; where that is wrong, as in `last`."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= layer.settings
    wrong = wrong_settings(layers)
    settings = SupervisorSettings.read({key: value for key, value in merged.items() if key not in wrong})
    if last is None:
        return settings
    fields = {name: getattr(last, name) for name, key in spelling(SupervisorSettings).items() if key in wrong}
    describing = None if "agents" in wrong else last_with(layers, "agents")
    names = frozenset[str]() if describing is None else describing.agent_names - settings.agents.keys()
    if kept := {name: last.agents[name] for name in names if name in last.agents}:
        fields["agents"] = {**settings.agents, **kept}
    return settings.but(**fields) if fields else settings


def wrong_settings(layers: Sequence[Layer]) -> frozenset[str]:
    """The keys of the daemon's settings of which the last word is wrong."""
    wrong: frozenset[str] = frozenset()
    for layer in layers:
        wrong = (wrong - layer.settings.keys()) | layer.wrong
    return wrong


def kept_instead(problems: Iterable[Problem], layers: Sequence[Layer]) -> Iterator[Problem]:
    """The problems, where settings are concerned with what comes of them after a reload."""
    wrong = wrong_settings(layers) | {"agents"}
    for problem in problems:
        match = _SETTING.match(problem.path)
        concerns_all = problem.path == "supervisor"
        if concerns_all or (match is not None and match[1] in wrong):
            yield structs.replace(problem, message=problem.message + _KEPT)
        else:
            yield problem


def last_with(layers: Sequence[Layer], key: str) -> Layer | None:
    """The last file that sets this key of the daemon's settings, rightly or wrongly: the one that counts."""
    return next((each for each in reversed(layers) if key in each.settings or key in each.wrong), None)


def configured_agents(layers: Sequence[Layer], settings: SupervisorSettings) -> dict[str, Agent]:
    """The agents of the daemon's settings, by name."""
    files = agent_files(layers, settings)
    return {name: Agent(name, patterns, files[name]) for name, patterns in settings.agents.items()}


def agent_files(layers: Sequence[Layer], settings: SupervisorSettings) -> dict[str, str]:
    """The file that describes each agent, also one that is wrong there: nobody else may then describe it."""
    layer = last_with(layers, "agents")
    names = frozenset[str]() if layer is None else layer.agent_names | settings.agents.keys()
    return {} if layer is None else dict.fromkeys(sorted(names), layer.file)


def candidates(layers: Sequence[Layer], defaults: Defaults) -> tuple[Candidate, ...]:
    """Every server of the layers, sorted by name, with the files whose entry it hides."""
    described: dict[str, list[tuple[str, RawEntry]]] = {}
    for layer in layers:
        for entry in layer.entries:
            described.setdefault(entry.name, []).append((layer.file, entry))
    written = defaults.written()
    return tuple(
        _candidate(described[name][-1], tuple(file for file, _ in described[name][:-1]), written)
        for name in sorted(described)
    )


def _candidate(
    winner: tuple[str, RawEntry], shadows: tuple[str, ...], defaults: Mapping[str, Any]
) -> Candidate:
    file, raw = winner
    if raw.problem is not None:
        return Candidate(raw.name, file, shadows, None, (raw.problem,))
    model = HttpEntry if raw.keys["type"] == "streamableHttp" else StdioEntry
    notices = tuple(unknown_keys(raw.keys, model, file=file, path=raw.path))
    try:
        entry = model.read({**defaults, **raw.keys})
    except Invalid as error:
        problems = from_validation(error, file=file, path=raw.path, renamed=raw.renamed)
        return Candidate(raw.name, file, shadows, None, problems, notices)
    return Candidate(raw.name, file, shadows, entry, (), notices)
