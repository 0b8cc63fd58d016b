"""Which tools an agent, or a request with patterns of its own, may see and call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.agents import (
    MAX_GLOBS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    Agent,
    Names,
    check_pattern,
    find,
    selection,
    unmatched,
)
from supervisor.core.globs import allows
from supervisor.errors import INVALID_PARAMS, InvalidParams, Outcome

NAMES = st.text(alphabet="ab_", min_size=1, max_size=4)
PATTERNS = st.builds(
    "".join, st.tuples(st.sampled_from(["", "!"]), st.text(alphabet="ab_*", min_size=1, max_size=4))
)
AGENTS = {
    "architect": Agent("architect", ("*", "!web_*"), "/etc/AGENTS.md"),
    "reader": Agent("reader", ("files_read", "git_*"), "/etc/mcp.json"),
    "anyone": Agent("anyone", ("!web_*", "*"), "/etc/mcp.json"),
    "nobody": Agent("nobody", (), "/etc/mcp.json"),
}


def seen(agent: str | None, tools: tuple[str, ...] | None, *names: str) -> list[str]:
    allowed = selection(AGENTS, agent, tools)
    return [name for name in names if allowed is None or allowed(name)]


@pytest.mark.parametrize(
    ("agent", "tools", "expected"),
    [
        (None, None, ["files_read", "git_log", "web_get"]),
        ("architect", None, ["files_read", "git_log"]),
        ("reader", None, ["files_read", "git_log"]),
        ("anyone", None, ["files_read", "git_log", "web_get"]),
        ("nobody", None, []),
        (None, ("*", "!*_log", "git_log"), ["files_read", "git_log", "web_get"]),
        (None, (), []),
        ("architect", ("web_*", "git_*"), ["git_log"]),
        ("anyone", ("web_*",), ["web_get"]),
        ("nobody", ("*",), []),
    ],
)
def test_a_request_sees_what_its_agent_and_its_own_patterns_both_allow(
    agent: str | None, tools: tuple[str, ...] | None, expected: list[str]
) -> None:
    assert seen(agent, tools, "files_read", "git_log", "web_get") == expected


@pytest.mark.parametrize(
    ("agent", "tools"), [(None, None), ("anyone", None), (None, ("*",)), ("anyone", ("*",))]
)
def test_who_may_everything_needs_no_predicate(agent: str | None, tools: tuple[str, ...] | None) -> None:
    assert selection(AGENTS, agent, tools) is None


@given(st.lists(PATTERNS, max_size=6), st.lists(NAMES, max_size=6))
def test_a_selection_decides_as_the_patterns_do_however_often_it_is_asked(
    patterns: list[str], names: list[str]
) -> None:
    allowed = selection({}, None, patterns)

    for name in names * 2:
        assert (allowed is None or allowed(name)) is allows(patterns, name)


def test_verdicts_stay_right_when_there_are_more_names_than_are_remembered() -> None:
    names = [f"{'even' if number % 2 == 0 else 'odd'}_{number}" for number in range(10_000)]
    allowed = selection({}, None, ["even_*"])
    assert allowed is not None

    assert [allowed(name) for name in names * 2] == [name.startswith("even") for name in names * 2]


def test_a_name_that_no_tool_can_have_is_judged_all_the_same() -> None:
    assert seen("architect", None, "x" * 100_000, "web_" + "x" * 100_000) == ["x" * 100_000]


def test_an_agent_is_found_by_its_name() -> None:
    assert find(AGENTS, "reader") is AGENTS["reader"]


def test_an_unknown_agent_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(InvalidParams) as caught:
        selection(AGENTS, "raeder", None)

    sentence = "cannot find agent 'raeder'; known agents: anyone, architect, nobody, reader"
    assert str(caught.value) == sentence
    assert (caught.value.code, caught.value.data) == (INVALID_PARAMS, {"outcome": Outcome.REJECTED})


def test_where_there_are_no_agents_the_refusal_says_so() -> None:
    with pytest.raises(InvalidParams, match=r"known agents: none$"):
        selection({}, "reader", None)


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        (["a", ""], r"tools\[1\] must be a name or a pattern such as files_\*, with ! in front to deny"),
        (["!"], r"tools\[0\] must be a name or a pattern"),
        (["a" * (MAX_PATTERN_LENGTH + 1)], r"tools\[0\] must have at most 256 characters"),
        (["a"] * (MAX_PATTERNS + 1), "tools has more than 512 patterns; name an agent that has them"),
        (["a*"] * (MAX_GLOBS + 1), "tools has more than 64 patterns with a star; name an agent"),
    ],
)
def test_patterns_that_cannot_be_used_are_refused(tools: list[str], reason: str) -> None:
    with pytest.raises(InvalidParams, match=f"^cannot accept these params: {reason}"):
        selection({}, None, tools)


def test_patterns_at_the_limits_are_accepted() -> None:
    exact = ["a" * MAX_PATTERN_LENGTH] * (MAX_PATTERNS - MAX_GLOBS)

    assert selection({}, None, [*exact, *["a*"] * MAX_GLOBS]) is not None


@pytest.mark.parametrize("pattern", ["a", "*", "!*", "a.b", "!a_*"])
def test_a_pattern_is_accepted(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["", " ", "!", "! "])
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="must be a name or a pattern"):
        check_pattern(pattern)


def test_exact_names_that_no_tool_has_are_told_and_globs_never() -> None:
    agents = {
        "a": Agent("a", ("files_raed", "git_*", "!gone", "files_read", "gone", "nothing_*"), "f"),
        "b": Agent("b", ("files_read", "*"), "f"),
    }

    assert unmatched(agents, Names({"files_read", "git_log"})) == {"a": ("files_raed", "gone")}


def test_a_name_that_a_server_may_yet_list_is_not_called_absent() -> None:
    agents = {"a": Agent("a", ("files_read", "web_get", "git_log"), "f")}

    assert unmatched(agents, Names({"git_log"}, beginnings=("files_",))) == {"a": ("web_get",)}
