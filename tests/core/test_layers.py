"""Several files become one set of settings and servers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.agents import Agent
from supervisor.core.document import DocumentError
from supervisor.core.layers import (
    Candidate,
    Layer,
    agent_files,
    candidates,
    configured_agents,
    kept_instead,
    last_with,
    merged_settings,
    read_layer,
    wrong_settings,
)
from supervisor.core.problems import Problem
from supervisor.core.spec import Defaults, HttpEntry, RestartSpec, StdioEntry


def layer(document: Any, *, file: str = "f") -> Layer:
    return read_layer(json.dumps(document).encode(), file=file)


def servers(*layers: Layer) -> dict[str, Candidate]:
    return {each.name: each for each in candidates(layers, merged_settings(layers).defaults)}


def test_a_later_file_shadows_an_earlier_one_by_name() -> None:
    first = layer({"mcpServers": {"a": {"command": "1"}, "b": {"command": "1"}}}, file="first")
    second = layer({"servers": {"a": {"command": "2"}}}, file="second")
    third = layer({"mcp": {"a": {"command": ["3"]}}}, file="third")

    found = servers(first, second, third)

    assert found["a"].entry == StdioEntry(command="3", args=())
    assert (found["a"].file, found["a"].shadows) == ("third", ("first", "second"))
    assert (found["b"].file, found["b"].shadows) == ("first", ())


def test_settings_merge_key_by_key_and_the_later_file_wins() -> None:
    first = layer({"supervisor": {"policy": "open", "toolSeparator": "__"}})
    second = layer({"supervisor": {"policy": "confirm"}})

    settings = merged_settings([first, second])

    assert (settings.policy, settings.tool_separator) == ("confirm", "__")


def test_a_wrong_setting_costs_only_itself() -> None:
    found = layer({"supervisor": {"policy": "opne", "http": {"port": "x"}, "toolSeparator": "__"}})

    assert [problem.path for problem in found.problems] == ["supervisor.policy", "supervisor.http.port"]
    assert merged_settings([found]).policy == "read-only"
    assert merged_settings([found]).tool_separator == "__"


GOOD: dict[str, Any] = {
    "policy": "confirm",
    "toolSeparator": "__",
    "defaults": {"callTimeout": 5},
    "agents": {"a": ["x_*"], "b": ["y_*"]},
}


@pytest.mark.parametrize(
    ("wrong", "kept"),
    [
        ({"policy": "confrim"}, ["policy"]),
        ({"toolSeparator": "__ ", "policy": "open"}, ["toolSeparator"]),
        ({"defaults": {"callTimeout": "5", "stopGrace": 1}}, ["defaults"]),
        ({"agents": ["a"]}, ["agents"]),
        ([], list(GOOD)),
    ],
    ids=str,
)
def test_a_setting_that_is_wrong_now_stays_as_it_was(wrong: Any, kept: list[str]) -> None:
    last = merged_settings([layer({"supervisor": GOOD})])
    now = [layer({"supervisor": wrong})]

    settings = merged_settings(now, last)

    assert wrong_settings(now) >= set(kept)
    written = last.written()
    assert {key: settings.written()[key] for key in kept} == {key: written[key] for key in kept}
    (problem,) = kept_instead(now[0].problems, now)
    assert problem.message.endswith("; what was good last stays in force")


def test_one_agent_that_is_wrong_now_stays_as_it_was_and_the_others_change() -> None:
    last = merged_settings([layer({"supervisor": GOOD})])
    now = [layer({"supervisor": {"agents": {"a": [""], "b": ["z_*"], "new": [1]}}})]

    settings = merged_settings(now, last)

    assert settings.agents == {"a": ("x_*",), "b": ("z_*",)}
    assert list(configured_agents(now, settings)) == ["b", "a"]


def test_a_wrong_setting_that_a_later_file_hides_keeps_nothing() -> None:
    last = merged_settings([layer({"supervisor": GOOD})])
    now = [layer({"supervisor": {"policy": "confrim"}}), layer({"supervisor": {"policy": "open"}})]

    assert merged_settings(now, last).policy == "open"
    assert wrong_settings(now) == set()
    assert tuple(kept_instead(now[0].problems, now)) == now[0].problems


def test_a_wrong_setting_hides_that_of_an_earlier_file() -> None:
    now = [layer({"supervisor": {"policy": "open"}}), layer({"supervisor": {"policy": "opne"}})]

    assert merged_settings(now).policy == "read-only"
    assert wrong_settings(now) == {"policy"}


def agents(*layers: Layer) -> dict[str, Agent]:
    return configured_agents(layers, merged_settings(layers))


def test_agents_come_from_the_last_file_that_has_any() -> None:
    first = layer({"supervisor": {"agents": {"a": ["*"], "b": ["*"]}}}, file="first")
    second = layer({"supervisor": {"agents": {"a": ["x_*", "!x_y"]}}}, file="second")
    third = layer({"supervisor": {"policy": "open"}}, file="third")

    assert agents(first, second, third) == {"a": Agent("a", ("x_*", "!x_y"), "second")}


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"bad": ["x", "!"]}, "supervisor.agents.bad[1]"),
        ({"bad": ["x", 1]}, "supervisor.agents.bad[1]"),
        ({"bad": "x"}, "supervisor.agents.bad"),
        ({" ": ["x"]}, 'supervisor.agents[" "]'),
    ],
)
def test_one_wrong_agent_costs_only_itself(wrong: dict[str, Any], path: str) -> None:
    found = layer({"supervisor": {"policy": "opne", "agents": {"good": ["*"], **wrong}}})

    assert [problem.path for problem in found.problems] == ["supervisor.policy", path]
    assert list(agents(found)) == ["good"]


def test_agents_that_are_no_object_cost_all_of_them() -> None:
    found = layer({"supervisor": {"agents": ["a"]}})

    assert [problem.path for problem in found.problems] == ["supervisor.agents"]
    assert (agents(found), agent_files([found], merged_settings([found]))) == ({}, {})


def test_a_wrong_agent_still_belongs_to_its_file() -> None:
    found = layer({"supervisor": {"agents": {"good": ["*"], "bad": [""]}}})

    assert agent_files([found], merged_settings([found])) == {"bad": "f", "good": "f"}


def test_the_last_file_that_sets_a_key_is_found() -> None:
    first = layer({"supervisor": {"agentsFile": "x"}}, file="first")
    second = layer({"supervisor": {"agentsFile": None}}, file="second")
    third = layer({}, file="third")

    assert last_with([first, second, third], "agentsFile") is second
    assert last_with([third], "agentsFile") is None


def test_defaults_lie_under_every_entry() -> None:
    document = {
        "supervisor": {"defaults": {"restart": "always", "stopGrace": 1, "inheritEnv": ["A"]}},
        "mcpServers": {"a": {"command": "x", "stopGrace": 2}, "b": {"url": "https://x"}},
    }

    found = servers(layer(document))

    assert found["a"].entry == StdioEntry(
        command="x", stop_grace=2.0, inherit_env=("A",), restart=RestartSpec(policy="always")
    )
    assert found["b"].entry == HttpEntry(
        url="https://x", stop_grace=1.0, restart=RestartSpec(policy="always", max_failures=10_000)
    )


def test_one_wrong_entry_has_all_its_problems_and_the_others_have_none() -> None:
    document = {
        "mcp": {
            "bad": {"command": ["x"], "environment": {"A": []}, "timeout": -1},
            "good": {"url": "https://x"},
        }
    }

    found = servers(layer(document))

    assert found["good"].entry is not None
    assert found["bad"].entry is None
    assert {problem.path for problem in found["bad"].problems} == {"mcp.bad.environment.A", "mcp.bad.timeout"}


def test_an_entry_that_cannot_be_translated_is_a_candidate_with_its_problem() -> None:
    found = servers(layer({"mcpServers": {"a": {"type": "sse", "url": "https://x"}}}))

    assert found["a"].entry is None
    assert [problem.path for problem in found["a"].problems] == ["mcpServers.a.type"]


def test_unknown_keys_are_noticed_everywhere() -> None:
    found = layer({"them": 1, "supervisor": {"polcy": 1}, "mcpServers": {"a": {"command": "x", "arg": []}}})

    paths = [notice.path for notice in (*found.notices, *servers(found)["a"].notices)]

    assert paths == ["them", "supervisor.polcy", "mcpServers.a.arg"]


def test_a_default_for_processes_is_no_unknown_key_of_an_http_server() -> None:
    document = {"supervisor": {"defaults": {"cwd": "/"}}, "mcpServers": {"a": {"url": "https://x"}}}

    assert not servers(layer(document))["a"].notices


def test_a_document_of_the_wrong_kind_is_a_problem() -> None:
    assert layer([]).problems == (Problem("f", "", "must be an object, not a list"),)


def test_text_that_is_no_document_is_an_error() -> None:
    with pytest.raises(DocumentError):
        read_layer(b"{", file="f")


KEYS = st.sampled_from(
    [
        "type",
        "transport",
        "command",
        "args",
        "url",
        "env",
        "environment",
        "headers",
        "enabled",
        "disabled",
        "timeout",
        "restart",
        "tools",
        "startTimeout",
        "cwd",
        "prefix",
        "servers",
        "startup",
        "policy",
        "a",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["stdio", "http", "sse", "local", "always", "https://x", "${A}", "", "\0", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=15,
)
TOP = st.sampled_from(["mcpServers", "servers", "mcp", "supervisor", "other"])
ENTRIES = st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=8) | VALUES, max_size=3)


@given(st.dictionaries(TOP, ENTRIES | VALUES))
def test_every_document_gives_servers_or_problems_and_never_an_exception(document: Any) -> None:
    found = servers(layer(document))

    assert all((each.entry is None) == bool(each.problems) for each in found.values())


@given(st.dictionaries(st.sampled_from(list(Defaults.__struct_encode_fields__)), VALUES))
def test_any_defaults_give_settings_or_problems(defaults: dict[str, Any]) -> None:
    found = layer({"supervisor": {"defaults": defaults}})

    assert found.problems or merged_settings([found]).defaults is not None
