"""What `mcp-supervisor check` says: the effective configuration, without anything secret.

`report` is for programs, `lines` for people, made from the same report. Templates are shown as they are
written; of variables and headers only the names. A password inside an address is blotted out.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from supervisor.core.agents import Agent, Names, unmatched
from supervisor.core.document import is_list, is_object
from supervisor.core.ringlog import Redactor
from supervisor.core.servers import CONCEALED, BadServer, Loaded, Notice, Problem, ServerSpec

_CREDENTIALS_IN_URL = re.compile(r"//[^/?#]*@")
_TARGET_KEYS = frozenset({"type", "command", "args", "url", "enabled"})


def report(loaded: Loaded, *, names: Names | None = None) -> dict[str, Any]:
    """Everything that was read, as JSON; `ok` is false when there is a problem.

    A server in trouble is no problem of the configuration: what it misses may well be there for the daemon.
    `names` are those of all tools, where a daemon can be asked; agents are then held against them.
    """
    notices = (*loaded.notices, *(() if names is None else absent_tools(loaded.agents, names)))
    return {
        "ok": not loaded.problems,
        "files": [_plain(file) for file in loaded.files],
        "settings": {
            **_plain(loaded.settings),
            "defaults": _plain(loaded.settings.defaults.written()),
        },
        "agentsFile": _plain(loaded.agents_file),
        "agents": [_plain(agent) for agent in loaded.agents.values()],
        "servers": [_server(server) for server in loaded.servers.values()],
        "problems": [_located(problem) for problem in loaded.problems],
        "notices": [_located(notice) for notice in notices],
    }


def absent_tools(agents: Mapping[str, Agent], names: Names) -> Iterator[Notice]:
    """A notice for every exact name in an agent's list that no tool has, with the nearest that one has."""
    for agent, absent in unmatched(agents, names).items():
        for name in absent:
            near = difflib.get_close_matches(name, names.certain, n=1)
            question = f"; did you mean {near[0]}?" if near else ""
            message = f"names the tool {name}, which no server has{question}"
            yield Notice(agents[agent].source, f"agent {agent}", message)


def _located(finding: Problem | Notice) -> dict[str, Any]:
    return {**_plain(finding), "text": str(finding)}


def _server(server: ServerSpec | BadServer) -> dict[str, Any]:
    common = {"name": server.name, "source": server.source, "shadows": list(server.shadows)}
    if isinstance(server, BadServer):
        return {**common, "state": "bad config", "trouble": "; ".join(map(str, server.problems))}
    entry = server.entry
    return {
        **common,
        "state": "trouble" if server.trouble else "ready" if entry.enabled else "disabled",
        "trouble": server.trouble,
        "written": sorted(entry.written()),
        "configuration": _without_secrets(_plain(entry), Redactor(server.secrets)),
    }


def _plain(value: object) -> Any:
    """The value as it is in JSON, where a tuple is a list."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _without_secrets(entry: Mapping[str, Any], redact: Redactor) -> dict[str, Any]:
    names = {key: sorted(entry[key]) for key in ("env", "headers") if key in entry}
    shown: dict[str, Any] = {**{key: _redacted(value, redact) for key, value in entry.items()}, **names}
    if "url" in shown:
        shown["url"] = _CREDENTIALS_IN_URL.sub(f"//{CONCEALED}@", shown["url"])
    return shown


def _redacted(value: Any, redact: Redactor) -> Any:
    """A value without the secrets that stand elsewhere in its entry too."""
    if is_list(value):
        return [redact(part) if isinstance(part, str) else part for part in value]
    return redact(value) if isinstance(value, str) else value


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report for people."""
    return [
        *(_file_line(file) for file in report["files"]),
        *(file["path"] for file in [report["agentsFile"]] if file is not None and file["found"]),
        *_server_lines(report["servers"]),
        *_agent_lines(report["agents"]),
        *_section("Problems", report["problems"]),
        *_section("Notices", report["notices"]),
        "",
        _verdict(report),
    ]


def _file_line(file: Mapping[str, Any]) -> str:
    return f"{file['path']}{'' if file['found'] else ' (not there)'}"


def _server_lines(servers: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for server in servers:
        yield ""
        yield f"{server['name']}: {server['state']}"
        if server["trouble"]:
            yield f"  {server['trouble']}"
        if "configuration" in server:
            yield from _configuration_lines(server["configuration"], server["written"])
        yield f"  from {server['source']}"
        yield from (f"  hides the entry in {file}" for file in server["shadows"])


def _agent_lines(agents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for agent in agents:
        yield ""
        yield f"agent {agent['name']}: {_shown(agent['patterns'])}"
        yield f"  from {agent['source']}"


def _configuration_lines(configuration: Mapping[str, Any], written: Iterable[str]) -> Iterator[str]:
    if "url" in configuration:
        yield f"  {configuration['url']}"
    else:
        yield f"  {' '.join(map(_word, [configuration['command'], *configuration['args']]))}"
    for key in written:
        if key not in _TARGET_KEYS:
            yield f"  {key}: {_shown(configuration[key])}"


def _word(argument: str) -> str:
    """An argument as it stands between others: quoted when it would not be seen as one."""
    return argument if argument and not re.search(r"[\s\"']", argument) else json.dumps(argument)


def _shown(value: Any) -> str:
    if is_object(value):
        return ", ".join(f"{key} {_shown(part)}" for key, part in value.items())
    if is_list(value):
        return ", ".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _section(title: str, findings: Iterable[Mapping[str, Any]]) -> list[str]:
    texts = [f"  {finding['text']}" for finding in findings]
    return ["", f"{title}:", *texts] if texts else []


def _verdict(report: Mapping[str, Any]) -> str:
    states = [server["state"] for server in report["servers"]]
    counts = [f"{len(states)} server{'' if len(states) == 1 else 's'}"]
    counts += [f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states))]
    problems = len(report["problems"])
    verdict = f"{problems} problem{'' if problems == 1 else 's'}" if problems else "no problems"
    return f"{', '.join(counts)}; {verdict}."
