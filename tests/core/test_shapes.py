"""Blocks pasted from other programs mean what they meant there."""

from typing import Any

import pytest

from supervisor.core.problems import Notice, Problem
from supervisor.core.shapes import MAX_NAME_LENGTH, RawEntry, shaped


def only(document: dict[str, Any]) -> RawEntry:
    (entry,) = shaped(document, file="f").entries
    return entry


STDIO = {"type": "stdio", "command": "x"}
HTTP = {"type": "streamableHttp", "url": "https://x"}


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "args": ["y"]}}}, STDIO | {"args": ["y"]}, id="claude"
        ),
        pytest.param({"mcpServers": {"a": {"type": "http", "url": "https://x"}}}, HTTP, id="claude-remote"),
        pytest.param({"mcpServers": {"a": {"url": "https://x"}}}, HTTP, id="cursor-remote"),
        pytest.param(
            {
                "inputs": [],
                "servers": {"a": {"type": "stdio", "command": "x", "env": {"A": 1, "B": None, "C": "c"}}},
            },
            STDIO | {"env": {"A": "1", "C": "c"}},
            id="vs-code",
        ),
        pytest.param({"mcp": {"servers": {"a": {"command": "x"}}}}, STDIO, id="vs-code-settings"),
        pytest.param(
            {
                "mcp": {
                    "a": {"type": "local", "command": ["x", "y"], "environment": {"A": "b"}, "timeout": 5000}
                }
            },
            STDIO | {"args": ["y"], "env": {"A": "b"}, "startTimeout": 5.0},
            id="opencode-1",
        ),
        pytest.param(
            {"mcp": {"a": {"type": "remote", "url": "https://x", "enabled": False}}},
            HTTP | {"enabled": False},
            id="opencode-1-remote",
        ),
        pytest.param(
            {"mcp": {"servers": {"type": "local", "command": ["x"]}}},
            STDIO | {"args": []},
            id="opencode-1-server-called-servers",
        ),
        pytest.param(
            {
                "mcp": {
                    "timeout": {"startup": 1000, "request": 2000},
                    "servers": {"a": {"command": ["x"], "disabled": True}},
                }
            },
            STDIO | {"args": [], "enabled": False, "startTimeout": 1.0, "callTimeout": 2.0},
            id="opencode-2",
        ),
        pytest.param(
            {"mcp": {"timeout": 9, "servers": {"a": {"command": "x", "timeout": {"startup": 1000}}}}},
            STDIO | {"startTimeout": 1.0},
            id="opencode-2-own-timeout",
        ),
        pytest.param(
            {"mcpServers": {"a": {"type": "local", "command": ["x"], "timeout": 500, "startTimeout": 3}}},
            STDIO | {"args": [], "startTimeout": 3},
            id="our-key-wins",
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "timeout": 60}}}, STDIO | {"timeout": 60}, id="any-timeout"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": ["x"], "args": ["y"]}}}, STDIO | {"args": ["y"]}, id="both"
        ),
        pytest.param(
            {"mcpServers": {"a": {"transport": "streamable-http", "url": "https://x", "command": 3}}},
            HTTP | {"command": 3},
            id="transport",
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "disabled": False, "enabled": True}}},
            STDIO | {"enabled": True},
            id="twice",
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "env": {"A": "b"}, "environment": {}}}},
            STDIO | {"env": {"A": "b"}, "environment": {}},
            id="env-wins",
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "env": {"A": True}}}},
            STDIO | {"env": {"A": True}},
            id="bool",
        ),
    ],
)
def test_a_shape_is_turned_into_ours(document: dict[str, Any], keys: dict[str, Any]) -> None:
    entry = only(document)

    assert entry.problem is None
    assert entry.keys == keys


@pytest.mark.parametrize(
    ("alias", "transport"),
    [
        ("stdio", "stdio"),
        ("local", "stdio"),
        ("streamableHttp", "streamableHttp"),
        ("streamable-http", "streamableHttp"),
        ("http", "streamableHttp"),
        ("remote", "streamableHttp"),
    ],
)
@pytest.mark.parametrize("key", ["type", "transport"])
def test_every_alias_of_a_transport_is_known(key: str, alias: str, transport: str) -> None:
    assert only({"mcpServers": {"a": {key: alias, "command": "x", "url": "y"}}}).keys["type"] == transport


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        (None, "mcpServers.a", "must be an object, not null"),
        ({}, "mcpServers.a", 'needs "command"'),
        ({"command": "x", "url": "y"}, "mcpServers.a", "has both command and url"),
        ({"type": "sse", "url": "y"}, "mcpServers.a.type", 'use "streamableHttp"'),
        ({"transport": "sse", "url": "y"}, "mcpServers.a.transport", 'use "streamableHttp"'),
        ({"type": "ws", "url": "y"}, "mcpServers.a.type", 'must be "stdio", "local", '),
        ({"type": ["stdio"]}, "mcpServers.a.type", 'must be "stdio"'),
        ({"type": "stdio", "transport": "http"}, "mcpServers.a", "one thing in type"),
        ({"command": []}, "mcpServers.a.command", "must name a program"),
        ({"command": ["x"], "args": "y"}, "mcpServers.a.args", "must be a list, not a string"),
        ({"command": "x", "disabled": "no"}, "mcpServers.a.disabled", "must be true or false, not a string"),
        ({"command": "x", "disabled": True, "enabled": True}, "mcpServers.a", "enabled and disabled at once"),
        (
            {"type": "local", "command": ["x"], "timeout": "5s"},
            "mcpServers.a.timeout",
            "milliseconds, not a string",
        ),
        ({"command": "x", "timeout": {"startup": True}}, "mcpServers.a.timeout", "milliseconds, not true"),
    ],
)
def test_an_entry_that_cannot_be_translated_says_why(raw: object, path: str, message: str) -> None:
    problem = only({"mcpServers": {"a": raw}}).problem

    assert problem is not None
    assert problem.path == path
    assert message in problem.message


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "x" * (MAX_NAME_LENGTH + 1), "a\x85"])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    problem = only({"mcpServers": {name: {"command": "x"}}}).problem

    assert problem is not None
    assert "has a name that cannot be used" in problem.message


@pytest.mark.parametrize(
    "name", ["a", "My Server", "größe", "a/b.c", "日本", "x" * MAX_NAME_LENGTH, "__proto__"]
)
def test_any_other_name_is_fine(name: str) -> None:
    assert only({"mcpServers": {name: {"command": "x"}}}).problem is None


def test_names_differ_by_case() -> None:
    servers = {"Files": {"command": "x"}, "files": {"command": "y"}}

    assert [entry.name for entry in shaped({"mcpServers": servers}, file="f").entries] == ["Files", "files"]


def test_one_wrong_entry_leaves_the_others_alone() -> None:
    document = {"mcpServers": {"bad": 1, "good": {"command": "x"}}}

    assert [entry.problem is None for entry in shaped(document, file="f").entries] == [False, True]


def test_a_server_described_twice_in_one_file_is_a_problem_and_the_first_stays() -> None:
    found = shaped({"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "y"}}}, file="f")

    assert [entry.keys["command"] for entry in found.entries] == ["x"]
    assert found.problems == (Problem("f", "servers.a", "is also described at mcpServers.a; remove one"),)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ""),
        (None, ""),
        ({"mcpServers": []}, "mcpServers"),
        ({"mcp": 1}, "mcp"),
        ({"mcp": {"servers": []}}, "mcp.servers"),
    ],
)
def test_a_document_of_the_wrong_kind_is_one_problem(document: object, path: str) -> None:
    found = shaped(document, file="f")

    assert not found.entries
    assert [problem.path for problem in found.problems] == [path]


def test_settings_are_kept_and_must_be_an_object() -> None:
    assert shaped({"supervisor": {"policy": "open"}}, file="f").settings == {"policy": "open"}
    assert shaped({"supervisor": 1}, file="f").problems == (
        Problem("f", "supervisor", "must be an object, not a number"),
    )


def test_unknown_top_level_keys_are_noticed_and_known_ones_are_not() -> None:
    document = {"$schema": "x", "inputs": [], "mcpservers": {}, "theme": "dark"}

    assert shaped(document, file="f").notices == (
        Notice("f", "mcpservers", "is not a known key and is ignored; did you mean mcpServers?"),
        Notice("f", "theme", "is not a known key and is ignored"),
    )


def test_the_translation_remembers_what_the_file_calls_a_key() -> None:
    entry = only({"mcp": {"a": {"command": ["x"], "environment": {}, "disabled": True, "timeout": 1}}})

    assert entry.renamed == {"env": "environment", "enabled": "disabled", "startTimeout": "timeout"}


def test_the_values_of_an_entry_are_not_in_its_repr() -> None:
    assert "s3cret" not in repr(only({"mcpServers": {"a": {"command": "x", "env": {"A": "s3cret"}}}}))
