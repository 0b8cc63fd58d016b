"""Other programs' servers, in our spelling."""

import json
from typing import Any

import pytest

from supervisor.core.imports import PROGRAMS, Homes, Offer, Program, offers, places, sorted_out
from supervisor.errors import BadConfig

HOMES = Homes(home="/home/u", config="/home/u/.config", codex="/home/u/.codex", project="/work/p")


def found(document: Any, file: str = "/home/u/x.json") -> dict[str, Offer]:
    content = document if isinstance(document, str) else json.dumps(document)
    return {offer.name: offer for offer in offers(content.encode(), file=file, homes=HOMES)}


@pytest.mark.parametrize(
    ("program", "first", "last"),
    [
        ("claude", "/home/u/.config/Claude/claude_desktop_config.json", None),
        ("claude-code", "/home/u/.claude.json", "/work/p/.mcp.json"),
        ("cursor", "/home/u/.cursor/mcp.json", "/work/p/.cursor/mcp.json"),
        ("vscode", "/home/u/.config/Code/User/mcp.json", "/work/p/.vscode/mcp.json"),
        ("opencode", "/home/u/.config/opencode/opencode.json", "/work/p/opencode.jsonc"),
        ("codex", "/home/u/.codex/config.toml", "/work/p/.codex/config.toml"),
    ],
)
def test_each_program_has_its_places(program: Program, first: str, last: str | None) -> None:
    looked_at = places(program, HOMES)

    assert (looked_at[0], looked_at[-1]) == (first, last or first)


def test_no_place_is_named_twice() -> None:
    at_home = Homes(home="/home/u", config="/home/u/.config", codex="/home/u/.codex", project="/home/u")

    for program in PROGRAMS:
        looked_at = places(program, at_home)
        assert len(set(looked_at)) == len(looked_at)


@pytest.mark.parametrize(
    ("document", "entry"),
    [
        (
            {"mcpServers": {"a": {"command": "npx", "args": ["x"], "env": {"K": "v"}, "gallery": True}}},
            {"command": "npx", "args": ["x"], "env": {"K": "v"}},
        ),
        (
            {"servers": {"a": {"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}}}, "inputs": []},
            {"url": "https://h/mcp", "headers": {"A": "b"}},
        ),
        (
            {
                "mcp": {
                    "a": {"type": "local", "command": ["x", "y"], "environment": {"K": "v"}, "timeout": 500}
                }
            },
            {"command": "x", "args": ["y"], "env": {"K": "v"}, "startTimeout": 0.5},
        ),
        (
            {"mcp": {"servers": {"a": {"command": ["x"], "disabled": True}}}},
            {"command": "x", "args": [], "enabled": False},
        ),
    ],
    ids=["claude and cursor", "vscode", "opencode 1", "opencode 2"],
)
def test_entries_come_in_our_spelling_with_only_the_keys_we_know(
    document: Any, entry: dict[str, Any]
) -> None:
    assert found(document)["a"] == Offer("a", "/home/u/x.json", entry, "new")


CODEX = """
model = "x"
[mcp_servers.local]
command = "npx"
args = ["-y", "x"]
env_vars = ["TOKEN"]
startup_timeout_sec = 20
tool_timeout_sec = 30.5
disabled_tools = ["drop"]
[mcp_servers.local.env]
K = "v"
[mcp_servers.remote]
url = "https://h/mcp"
bearer_token_env_var = "TOKEN"
enabled = false
enabled_tools = ["read"]
http_headers = { "X-One" = "1" }
env_http_headers = { "X-Two" = "TWO" }
"""


def test_codex_is_read_from_toml() -> None:
    servers = found(CODEX, "/home/u/.codex/config.toml")

    assert servers["local"].entry == {
        "command": "npx",
        "args": ["-y", "x"],
        "env": {"K": "v"},
        "inheritEnv": ["TOKEN"],
        "startTimeout": 20,
        "callTimeout": 30.5,
        "tools": ["*", "!drop"],
    }
    assert servers["remote"].entry == {
        "url": "https://h/mcp",
        "enabled": False,
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-One": "1", "X-Two": "${TWO}"},
        "tools": ["read"],
    }


@pytest.mark.parametrize("text", ["mcp_servers = 1", "model = 'x'"])
def test_a_codex_file_without_servers_offers_nothing(text: str) -> None:
    assert found(text, "/c.toml") == {}


def test_a_codex_entry_of_the_wrong_kind_is_unusable() -> None:
    offer = found("[mcp_servers]\na = 1", "/c.toml")["a"]

    assert (offer.state, offer.reason) == ("unusable", "must be an object, not a number")


def test_what_is_wrong_is_said_without_the_place_that_everybody_sees() -> None:
    offer = found({"mcpServers": {"a b": {"command": "x", "args": "y", "env": []}}})["a b"]

    assert offer.reason == "args: must be a list, not a string; env: must be an object, not a list"


@pytest.mark.parametrize("content", ["= 1", "\udcff"])
def test_what_is_no_toml_is_refused(content: str) -> None:
    with pytest.raises(BadConfig, match=r"cannot read /c\.toml: it is not TOML"):
        offers(content.encode(errors="surrogateescape"), file="/c.toml", homes=HOMES)


def test_claude_code_keeps_servers_by_project_and_those_win_nothing_over_the_users() -> None:
    document = {
        "numStartups": 3,
        "mcpServers": {"a": {"command": "users"}},
        "projects": {
            "/work/p": {"mcpServers": {"a": {"command": "projects"}, "b": {"command": "b"}}},
            "/else": {"mcpServers": {"c": {"command": "c"}}},
        },
    }

    assert {name: offer.entry["command"] for name, offer in found(document).items()} == {
        "a": "users",
        "b": "b",
    }


def test_an_entry_that_we_would_refuse_is_unusable_and_says_why() -> None:
    offer = found({"mcpServers": {"a": {"type": "sse", "url": "http://h/"}}})["a"]

    assert (offer.state, dict(offer.entry)) == ("unusable", {})
    assert "streamableHttp" in offer.reason


@pytest.mark.parametrize(
    ("file", "base", "cwd"),
    [
        ("/home/u/.config/x.json", "/home/u/.config", {}),
        ("/home/u/.cursor/mcp.json", "/home/u", {}),
        ("/home/u/.config/opencode/opencode.json", "/home/u/.config/opencode", {}),
        ("/work/p/.cursor/mcp.json", "/work/p", {"cwd": "/work/p"}),
        ("/else/.vscode/mcp.json", "/else", {"cwd": "/else"}),
        ("/work/p/.mcp.json", "/work/p", {"cwd": "/work/p"}),
        ("/work/p/opencode.jsonc", "/work/p", {"cwd": "/work/p"}),
    ],
)
def test_relative_paths_are_made_absolute_and_a_projects_server_runs_in_it(
    file: str, base: str, cwd: dict[str, str]
) -> None:
    entry = {
        "command": "bin/x",
        "envFile": ".env",
        "args": ["{file:key}", "{file:~/key}"],
        "env": {"K": "{file:k}"},
    }

    assert found({"mcpServers": {"a": entry}}, file)["a"].entry == {
        "command": f"{base}/bin/x",
        "envFile": f"{base}/.env",
        "args": [f"{{file:{base}/key}}", "{file:~/key}"],
        "env": {"K": f"{{file:{base}/k}}"},
        **cwd,
    }


def test_what_claude_code_keeps_for_a_project_starts_there() -> None:
    servers = {"p": {"command": "./run.sh"}, "q": {"command": "q", "cwd": "sub"}, "r": {"url": "http://h/"}}
    document = {"mcpServers": {"u": {"command": "./u"}}, "projects": {"/work/p": {"mcpServers": servers}}}

    assert {name: offer.entry for name, offer in found(document, "/home/u/.claude.json").items()} == {
        "p": {"command": "/work/p/run.sh", "cwd": "/work/p"},
        "q": {"command": "q", "cwd": "/work/p/sub"},
        "r": {"url": "http://h/"},
        "u": {"command": "/home/u/u"},
    }


def test_what_an_editor_knows_of_a_project_is_filled_in() -> None:
    entry = {
        "command": "${workspaceFolder}/x",
        "args": ["${workspaceRoot}${/}s.js", "${workspaceFolderBasename}", "${userHome}${pathSeparator}y"],
        "env": {"K": "${env:HOME}"},
        "envFile": "${workspaceFolder}/.env",
        "cwd": "${workspaceFolder}",
    }

    offer = found({"servers": {"a": entry}}, "/work/p/.vscode/mcp.json")["a"]

    assert offer.state == "new"
    assert offer.entry == {
        "command": "/work/p/x",
        "args": ["/work/p/s.js", "p", "/home/u/y"],
        "env": {"K": "${env:HOME}"},
        "envFile": "/work/p/.env",
        "cwd": "/work/p",
    }


@pytest.mark.parametrize(
    ("file", "value", "missing"),
    [
        ("/work/p/.vscode/mcp.json", "Bearer ${input:tok}", "${input:tok}"),
        ("/work/p/.vscode/mcp.json", "${command:x}${config:y}", "${command:x} and ${config:y}"),
        ("/work/p/.vscode/mcp.json", "${workspaceFolder:other}", "${workspaceFolder:other}"),
        ("/home/u/.cursor/mcp.json", "${workspaceFolder}${workspaceFolder}", "${workspaceFolder}"),
    ],
)
def test_what_only_an_editor_knows_is_named_and_the_offer_is_incomplete(
    file: str, value: str, missing: str
) -> None:
    offer = found({"servers": {"a": {"url": "http://h/", "headers": {"A": value}, "callTimeout": 5}}}, file)[
        "a"
    ]

    assert offer.state == "incomplete"
    assert offer.reason == f"needs a value in place of {missing}, which only an editor can fill in"


@pytest.mark.parametrize(
    ("entry", "launch"),
    [
        ({"command": "npx", "args": ["-y", "a b", ""]}, "npx -y 'a b' ''"),
        ({"command": "x", "args": ["--token", "s3cret"], "env": {"K": "s3cret"}}, "x --token ***"),
        ({"url": "https://h/?api_key=s3cret"}, "https://h/?api_key=***"),
        ({}, ""),
    ],
)
def test_what_would_be_started_is_shown_without_secrets(entry: Any, launch: str) -> None:
    assert found({"mcpServers": {"a": entry}})["a"].launch == launch


@pytest.mark.parametrize("path", ["/abs", "~/x", "${HOME}/x", "{env:HOME}/x"])
def test_other_paths_stay_as_they_are(path: str) -> None:
    entry = {"command": "./x", "cwd": path}

    assert found({"mcpServers": {"a": entry}})["a"].entry == entry


def test_what_exists_and_what_was_offered_before_is_marked() -> None:
    def offer(name: str, source: str) -> Offer:
        return Offer(name, source, {"command": name}, "new")

    bad = Offer("a", "/z", {}, "unusable", "no")
    incomplete = [Offer(name, "/z", {"command": name}, "incomplete", "needs") for name in "bc"]

    judged = sorted_out([offer("a", "/x"), offer("b", "/x"), offer("b", "/y"), bad, *incomplete], ["a"])

    assert [(each.name, each.state, each.reason) for each in judged] == [
        ("a", "exists", "the configuration has a server of this name"),
        ("b", "new", ""),
        ("b", "exists", "offered above, from /x"),
        ("a", "unusable", "no"),
        ("b", "exists", "offered above, from /x"),
        ("c", "incomplete", "needs"),
    ]


def test_an_offer_does_not_show_its_secrets() -> None:
    offer = found({"mcpServers": {"a": {"command": "x", "env": {"K": "s3cret"}}}})["a"]

    assert "s3cret" not in repr(offer)
