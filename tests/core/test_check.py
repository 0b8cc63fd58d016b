"""What `check` says, and what it never says."""

import json
from typing import Any

from supervisor.core.agents import Agent, Names
from supervisor.core.check import lines, report
from supervisor.core.interpolate import Text
from supervisor.core.servers import BadServer, ConfigFile, Launch, Loaded, Notice, Problem, ServerSpec
from supervisor.core.spec import Defaults, Entry, HttpEntry, StdioEntry, SupervisorSettings

FILE = "/etc/mcp.json"


def server(
    name: str, entry: Entry, *, trouble: str | None = None, shadows: tuple[str, ...] = ()
) -> ServerSpec:
    target = Launch(Text("s3cret", "x"), (), {}, None, ())
    return ServerSpec(name, entry, target, trouble, FILE, shadows, frozenset({"s3cret"}))


def loaded(*servers: ServerSpec | BadServer, **changes: Any) -> Loaded:
    parts: dict[str, Any] = {
        "settings": SupervisorSettings(),
        "servers": {each.name: each for each in servers},
        "problems": (),
        "notices": (),
        "files": (ConfigFile(FILE, found=True),),
        "unreadable": False,
    }
    return Loaded(**parts | changes)


FILES = StdioEntry.read(
    {
        "command": "${supervisor:python}",
        "args": ["-m", "files", "two words", "${TOKEN}", "--key=s3cret"],
        "env": {"KEY": "s3cret", "ANOTHER": "s3cret"},
        "restart": "always",
        "tools": ["a*", "!b"],
    }
)
REMOTE = HttpEntry.read(
    {"url": "https://me:s3cret@x.example/mcp", "headers": {"Authorization": "s3cret"}, "enabled": False}
)
PROBLEM = Problem(FILE, "mcpServers.c.command", "is missing")
FULL = loaded(
    server("files", FILES, shadows=("/usr/mcp.json",)),
    server("remote", REMOTE),
    server("sad", StdioEntry.read({"command": "x", "inheritEnv": []}), trouble="variable A is not set"),
    BadServer("worse", FILE, (), (PROBLEM,)),
    problems=(PROBLEM,),
    notices=(Notice(FILE, "mcpServers.files.arg", "is not a known key and is ignored"),),
    files=(ConfigFile("/usr/mcp.json", found=True), ConfigFile("/home/mcp.json", found=False)),
)


def test_the_report_has_no_secret_and_is_json() -> None:
    text = json.dumps(report(FULL))

    assert "s3cret" not in text + "\n".join(lines(report(FULL)))


def test_the_report_shows_templates_as_written_and_variables_and_headers_by_name() -> None:
    files, remote, *_ = report(FULL)["servers"]

    assert files["configuration"]["args"] == ["-m", "files", "two words", "${TOKEN}", "--key=***"]
    assert files["configuration"]["env"] == ["ANOTHER", "KEY"]
    assert remote["configuration"]["headers"] == ["Authorization"]
    assert remote["configuration"]["url"] == "https://***@x.example/mcp"


def test_the_report_shows_effective_values_that_nobody_wrote() -> None:
    files = report(FULL)["servers"][0]

    assert files["configuration"]["stopGrace"] == 5.0
    assert "stopGrace" not in files["written"]


def test_a_problem_makes_the_report_not_ok_and_trouble_does_not() -> None:
    troubled = server("a", StdioEntry(command="x"), trouble="variable A is not set")

    assert report(loaded(troubled))["ok"] is True
    assert report(loaded(problems=(PROBLEM,)))["ok"] is False


def test_settings_are_shown_with_the_defaults_that_are_written() -> None:
    settings = SupervisorSettings(defaults=Defaults.read({"stopGrace": 1}), http=False)

    shown = report(loaded(settings=settings))["settings"]

    assert shown["defaults"] == {"stopGrace": 1.0}
    assert (shown["http"], shown["policy"]) == (False, "read-only")


AGENTS = {
    "architect": Agent("architect", ("*", "!web_*"), "/etc/AGENTS.md"),
    "reader": Agent("reader", ("files_raed", "git_*", "!elsewhere"), FILE),
}


def test_agents_are_shown_with_the_file_that_describes_them() -> None:
    found = report(loaded(agents=AGENTS, agents_file=ConfigFile("/etc/AGENTS.md", found=True)))

    assert found["agents"][0] == {
        "name": "architect",
        "patterns": ["*", "!web_*"],
        "source": "/etc/AGENTS.md",
    }
    assert lines(found)[:8] == [
        FILE,
        "/etc/AGENTS.md",
        "",
        "agent architect: *, !web_*",
        "  from /etc/AGENTS.md",
        "",
        "agent reader: files_raed, git_*, !elsewhere",
        f"  from {FILE}",
    ]


def test_an_agents_file_that_is_not_there_is_not_shown_to_people() -> None:
    found = report(loaded(agents_file=ConfigFile("/etc/AGENTS.md", found=False)))

    assert found["agentsFile"] == {"path": "/etc/AGENTS.md", "found": False}
    assert "/etc/AGENTS.md" not in "".join(lines(found))


def test_exact_names_that_no_server_has_are_noticed_when_the_tools_are_known() -> None:
    found = report(loaded(agents=AGENTS), names=Names({"files_read", "files_write"}))

    assert [notice["text"] for notice in found["notices"]] == [
        f"{FILE}: agent reader: names the tool files_raed, which no server has; did you mean files_read?",
        f"{FILE}: agent reader: names the tool elsewhere, which no server has",
    ]
    assert found["ok"]


def test_nothing_is_said_about_tools_when_they_are_not_known() -> None:
    assert not report(loaded(agents=AGENTS))["notices"]


def test_people_get_lines() -> None:
    assert lines(report(FULL)) == [
        "/usr/mcp.json",
        "/home/mcp.json (not there)",
        "",
        "files: ready",
        '  ${supervisor:python} -m files "two words" ${TOKEN} --key=***',
        "  env: ANOTHER, KEY",
        "  restart: policy always, delay 0.5, maxDelay 30.0, maxFailures 5, window 300.0",
        "  tools: a*, !b",
        "  from /etc/mcp.json",
        "  hides the entry in /usr/mcp.json",
        "",
        "remote: disabled",
        "  https://***@x.example/mcp",
        "  headers: Authorization",
        "  from /etc/mcp.json",
        "",
        "sad: trouble",
        "  variable A is not set",
        "  x",
        "  inheritEnv: none",
        "  from /etc/mcp.json",
        "",
        "worse: bad config",
        "  /etc/mcp.json: mcpServers.c.command: is missing",
        "  from /etc/mcp.json",
        "",
        "Problems:",
        "  /etc/mcp.json: mcpServers.c.command: is missing",
        "",
        "Notices:",
        "  /etc/mcp.json: mcpServers.files.arg: is not a known key and is ignored",
        "",
        "4 servers, 1 bad config, 1 disabled, 1 ready, 1 trouble; 1 problem.",
    ]


def test_nothing_configured_is_said_in_a_line() -> None:
    assert lines(report(loaded()))[-1] == "0 servers; no problems."
