"""Problems and notices: where they point and how they read."""

import pytest

from supervisor.core.problems import (
    Invalid,
    Notice,
    Path,
    Problem,
    dotted,
    from_validation,
    listed,
    unknown_keys,
)
from supervisor.core.reading import Model
from supervisor.core.spec import HttpEntry, StdioEntry, SupervisorSettings


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("a.json", "servers.x", "is wrong"), "a.json: servers.x: is wrong"),
        (Problem("a.json", "", "is wrong", 3, 7), "a.json:3:7: is wrong"),
        (Notice("a.json", "x", "is odd"), "a.json: x: is odd"),
    ],
)
def test_a_finding_is_one_line(problem: Problem | Notice, line: str) -> None:
    assert str(problem) == line


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ((), ""),
        (("mcpServers", "files", "args", 2), "mcpServers.files.args[2]"),
        (("a", "my server", "x.y"), 'a["my server"]["x.y"]'),
        (("$schema", "größe", "a-b_c"), "$schema.größe.a-b_c"),
        (("a", "\x1b[31m"), 'a["\\u001b[31m"]'),
    ],
)
def test_a_path_is_written_as_people_write_it(path: Path, written: str) -> None:
    assert dotted(path) == written


@pytest.mark.parametrize(("words", "text"), [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b or c")])
def test_words_are_listed(words: list[str], text: str) -> None:
    assert listed(words, joint="or") == text


@pytest.mark.parametrize(
    ("model", "document", "path", "message"),
    [
        (StdioEntry, {"command": 3}, "command", "must be a string, not a number"),
        (StdioEntry, {}, "command", "is missing"),
        (StdioEntry, {"args": ["a", None]}, "args[1]", "must be a string, not null"),
        (StdioEntry, {"args": "a"}, "args", "must be a list, not a string"),
        (StdioEntry, {"enabled": "yes"}, "enabled", "must be true or false, not a string"),
        (StdioEntry, {"startTimeout": True}, "startTimeout", "must be a number, not true"),
        (StdioEntry, {"maxQueue": 1.5}, "maxQueue", "must be a whole number, not a number"),
        (StdioEntry, {"maxQueue": -1}, "maxQueue", "must be at least 0"),
        (StdioEntry, {"idleTimeout": 0}, "idleTimeout", "must be greater than 0"),
        (StdioEntry, {"stopGrace": 1e9}, "stopGrace", "must be at most 3600"),
        (StdioEntry, {"env": []}, "env", "must be an object, not a list"),
        (StdioEntry, {"env": {"A": True}}, "env.A", "must be a string, not true"),
        (StdioEntry, {"env": {"A=": "x"}}, 'env["A="]', "must be the name of a variable"),
        (StdioEntry, {"start": "slow"}, "start", 'must be "eager" or "lazy", not "slow"'),
        (StdioEntry, {"start": ["eager"]}, "start", 'must be "eager" or "lazy", not a list'),
        (StdioEntry, {"start": "x" * 99}, "start", f'not "{"x" * 40}\\u2026"'),
        (StdioEntry, {"restart": "allways"}, "restart", 'must be "never", "on-failure" or "always"'),
        (StdioEntry, {"restart": {"delay": 1}}, "restart.policy", "is missing"),
        (StdioEntry, {"restart": 3}, "restart", 'or an object with "policy"'),
        (StdioEntry, {"prefix": "x" * 65}, "prefix", "must have at most 64 characters"),
        (HttpEntry, {"headers": {"a b": "x"}}, 'headers["a b"]', "must be the name of a header"),
        (SupervisorSettings, {"http": {"port": "x"}}, "http.port", "must be a whole number, not a string"),
        (SupervisorSettings, {"http": True}, "http", "must be an object, not true"),
        (SupervisorSettings, {"http": None}, "http", "must be an object, not null"),
        (SupervisorSettings, {"agents": {"a": {}}}, "agents.a", "must be a list, not an object"),
    ],
)
def test_a_problem_names_its_place_and_what_would_be_right(
    model: type[Model], document: dict[str, object], path: str, message: str
) -> None:
    with pytest.raises(Invalid) as caught:
        model.read(document)

    found = {problem.path: problem.message for problem in from_validation(caught.value, file="f", path=())}

    assert message in found[path]


def test_a_path_uses_the_key_that_the_file_uses() -> None:
    document = {"command": "x", "startTimeout": -5.0}
    with pytest.raises(Invalid) as caught:
        StdioEntry.read(document)

    renamed = {"startTimeout": "timeout"}
    (problem,) = from_validation(caught.value, file="f", path=("mcp", "a"), renamed=renamed)

    assert problem == Problem("f", "mcp.a.timeout", "must be greater than 0")


def test_a_rule_between_keys_points_at_their_object() -> None:
    document = {"command": "x", "callTimeout": 9000.0}
    with pytest.raises(Invalid) as caught:
        StdioEntry.read(document)

    (problem,) = from_validation(caught.value, file="f", path=("servers", "a"))

    assert problem == Problem("f", "servers.a", "maxCallTime must be at least callTimeout, which is 9000")


def test_unknown_keys_are_named_with_the_nearest_known_one_at_every_depth() -> None:
    document = {"polcy": "open", "http": {"prot": 1}, "defaults": {"restart": {"dely": 1}}, "zzz": 0}

    notices = unknown_keys(document, SupervisorSettings, file="f", path=("supervisor",))

    assert [str(notice) for notice in notices] == [
        "f: supervisor.polcy: is not a known key and is ignored; did you mean policy?",
        "f: supervisor.http.prot: is not a known key and is ignored; did you mean port?",
        "f: supervisor.defaults.restart.dely: is not a known key and is ignored; did you mean delay?",
        "f: supervisor.zzz: is not a known key and is ignored",
    ]


def test_free_names_are_not_unknown_keys() -> None:
    document = {"command": "x", "env": {"ANYTHING": "1"}, "restart": "never"}

    assert not list(unknown_keys(document, StdioEntry, file="f", path=()))
