"""Agents from Markdown: which hyphens open a block, what a block may say, and what a wrong one costs."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.agents import Agent, FrontMatter
from supervisor.core.frontmatter import MAX_BYTES, MAX_DEPTH, MAX_LENGTH, read_agents

FILE = "AGENTS.md"


def read(text: str | bytes, **taken: str) -> FrontMatter:
    content = text if isinstance(text, bytes) else text.encode()
    return read_agents(content, file=FILE, taken=taken)


def patterns(text: str) -> dict[str, tuple[str, ...]]:
    """The patterns of each agent in a text that has nothing wrong with it."""
    found = read(dedent(text))
    assert not found.problems
    return {name: agent.patterns for name, agent in found.agents.items()}


def problems(text: str | bytes) -> list[str]:
    return [str(problem) for problem in read(text).problems]


def test_every_block_describes_an_agent_and_the_text_between_is_ignored() -> None:
    text = """\
        ---
        name: architect
        description: "Draws: and plans"
        tools: [view_file, grep, context7_*]
        ---
        You are an architect.

        ---

        A rule above, and one below.

        ---

        ---
        model: {large: true}
        tools:
          - "*"
          - '!web_*'
        name: prompt builder
        ---
        Build prompts.
        """

    assert patterns(text) == {
        "architect": ("view_file", "grep", "context7_*"),
        "prompt builder": ("*", "!web_*"),
    }


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ("[*]", ("*",)),
        ("[*, !web_*]", ("*", "!web_*")),
        ("[ *_file , !a, 'b' ]", ("*_file", "!a", "b")),
        ("\n- *\n- !web_*\n- '!c'", ("*", "!web_*", "!c")),
        ("*", ("*",)),
        ("!x", ("!x",)),
        ("git_log", ("git_log",)),
        ("Read, Grep,git_*", ("Read", "Grep", "git_*")),
        ("[]", ()),
    ],
)
def test_patterns_are_a_list_or_a_string_and_need_no_quotes(tools: str, expected: tuple[str, ...]) -> None:
    assert patterns(f"---\nname: a\ntools: {tools}\n---\n") == {"a": expected}


def test_an_agent_without_tools_has_them_all() -> None:
    assert patterns("---\nname: a\n---\n") == {"a": ("*",)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# Rules for agents\n\nBe kind.\n",
        "---\n---\n",
        "---\ntitle: A guide\n---\nText.\n",
        "---\n# only a comment\n---\n",
        "Text\n---\nnot: a block\n---\n",
        "Text\n\n---\n\nThe tools are few.\ntools: use them\n\n---\n",
        "Text\n\n---\nname is what it has\n---\n",
        "---\nNote: a rule that opens the file and closes nothing",
        "```yaml\n---\nname: sample\ntools: [*]\n---\n```\n",
        "~~~~\n```\n~~~\n---\nname: sample\n---\n~~~~\n",
    ],
)
def test_what_is_no_block_of_an_agent_has_no_effect(text: str) -> None:
    assert read(text) == FrontMatter({})


@pytest.mark.parametrize(
    "text",
    [
        "\n\n---\nname: a\n---\n",
        "\ufeff---\nname: a\n---",
        "---\r\nname: a\r\n---\r\ntext\r\n",
        "---  \n# comment\n\nname: a\n--- \n",
        "Title\n---\nname: a\n---\n",
        "```a``` is code\n\n---\nname: a\n---\n",
        "```\nsample\n```\n\n---\nname: a\n---\n",
        "---\ntitle: x\n---\nname: a\n---\n",
        "text\n---\n'name': a\n---\n",
    ],
)
def test_a_block_is_found(text: str) -> None:
    assert patterns(text) == {"a": ("*",)}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("name: [a", ":2:9: the block is not YAML: expected ',' or ']', but got '<stream end>'"),
        ("name: a\ntools: 'x", ":3:10: the block is not YAML: found unexpected end of stream"),
        ("name: \x01", ":1: the block is not YAML: unacceptable character #x0001"),
        ("- name: a", ":2:1: the block must hold keys such as name and tools"),
        ("just text", ":2:1: the block must hold keys such as name and tools"),
        ("tools: [*]", ":1: name: is missing: a block with tools needs the name of its agent"),
        ("name: ''", ":2:7: name: must not be empty"),
        ("name:", ":2:6: name: must be a string, not null"),
        ("name: 12", ":2:7: name: must be a string, not a number; put it in quotes"),
        ("name: 1.5", ":2:7: name: must be a string, not a number; put it in quotes"),
        ("name: yes", ":2:7: name: must be a string, not true or false; put it in quotes"),
        ("name: 2024-01-01", ":2:7: name: must be a string, not a date; put it in quotes"),
        ("name: [a]", ":2:7: name: must be a string, not a list"),
        ("name: a\nname: b", ":3:1: name: occurs twice in one block; remove one"),
        ("name: a\ntools:", ":3:7: tools: must be a pattern or a list of patterns, not null"),
        ("name: a\ntools: {b: c}", ":3:8: tools: must be a pattern or a list of patterns, not an object"),
        ("name: a\ntools: ['']", ":3:9: tools[0]: must be a name or a pattern such as files_*"),
        ("name: a\ntools: [b, !]", ":3:12: tools[1]: must be a name or a pattern such as files_*"),
        ("name: a\ntools: b,,c", ":3:8: tools: must be a name or a pattern such as files_*"),
        ("name: a\ntools: [b, [c]]", ":3:12: tools[1]: must be a string, not a list"),
    ],
)
def test_a_wrong_block_is_a_problem_with_its_place_and_costs_only_itself(block: str, problem: str) -> None:
    found = read(f"---\n{block}\n---\ntext\n\n---\nname: good\n---\n")

    assert list(found.agents) == ["good"]
    assert str(found.problems[0]).startswith(FILE + problem)


def test_all_problems_of_a_block_are_told_at_once() -> None:
    assert len(problems("---\nname: 1\ntools: [2, '', {}]\n---\n")) == 4


def test_lines_are_counted_from_the_start_of_the_file() -> None:
    assert problems("one\ntwo\n\n---\ntitle: x\nname: 7\n---\n") == [
        "AGENTS.md:6:7: name: must be a string, not a number; put it in quotes"
    ]


def test_a_block_that_is_never_closed_is_a_problem() -> None:
    assert problems("---\nname: a\ntools: [*]\n\nText.\n") == [
        "AGENTS.md:1: the block is never closed; end it with a line ---"
    ]


def test_a_name_can_be_used_once() -> None:
    found = read("---\nname: a\n---\n\n---\ntools: [x]\nname: a\n---\n")

    assert found.agents == {"a": Agent("a", ("*",), FILE)}
    assert [str(problem) for problem in found.problems] == [
        "AGENTS.md:7: name: is the name of the agent in line 2 too; rename or remove one"
    ]


def test_the_configuration_wins_and_a_notice_says_so() -> None:
    found = read("---\nname: a\n---\n---\nname: b\n---\n", a="/etc/mcp.json")

    assert list(found.agents) == ["b"]
    assert not found.problems
    assert [str(notice) for notice in found.notices] == [
        "AGENTS.md:2: the agent 'a' is ignored: /etc/mcp.json describes it too, and wins"
    ]


def test_aliases_and_tags_are_text_so_nothing_multiplies_and_nothing_is_made() -> None:
    doubling = "\n".join(f"k{n + 1}: [*k{n}, *k{n}]" for n in range(60))
    text = f"---\nname: a\nk0: &k0 x\n{doubling}\nmade: !!python/object/apply:os.abort []\n---\n"

    assert patterns(text) == {"a": ("*",)}


@pytest.mark.parametrize(("before", "opening"), [("", "["), ("", "{a: "), ("\n", "- ")])
def test_what_nests_without_end_is_a_problem(before: str, opening: str) -> None:
    (problem,) = problems(f"---\nname: a\nother: {before}{opening * (MAX_DEPTH + 1)}\n---\n")

    assert problem.endswith("the block is not YAML: more than 50 lists or objects lie in one another")


def test_values_that_no_object_could_be_made_of_are_ignored_with_their_keys() -> None:
    text = f"---\nname: a\nwhen: 2024-99-99\nmany: {'9' * 10_000}\n? [x]\n: {{[y]: z}}\n<<: 1\n---\n"

    assert patterns(text) == {"a": ("*",)}


def test_blocks_beyond_the_limit_are_a_problem_and_those_before_are_used() -> None:
    long = f"---\nname: long\nother: {'x' * MAX_LENGTH}\n---\n"

    found = read(f"---\nname: a\n---\n{long}---\nname: b\n---\n")

    assert list(found.agents) == ["a"]
    assert [str(problem) for problem in found.problems] == [
        "AGENTS.md:4: the blocks have more than 65536 characters in all; from here on they are ignored"
    ]


def test_a_file_beyond_the_limit_is_not_read() -> None:
    assert problems(b"x" * (MAX_BYTES + 1)) == [
        "AGENTS.md: the file is larger than 1048576 bytes; make it smaller"
    ]
    assert problems(b"x" * MAX_BYTES) == []


def test_a_text_that_is_not_utf_8_is_a_problem_with_its_line() -> None:
    assert problems(b"---\nname: \xff\n---\n") == ["AGENTS.md:2: the text is not UTF-8; save it as UTF-8"]


LINES = st.sampled_from(
    [
        "---",
        "name: a",
        "name: b",
        "tools: [*, !x]",
        "tools:",
        "- *",
        "  - !x",
        "",
        "text",
        "```",
        "x: {",
        "\t",
        "&a",
    ]
)


@given(st.lists(LINES, max_size=14) | st.lists(st.text(max_size=8), max_size=8))
def test_any_text_gives_agents_or_problems_and_never_an_exception(lines: list[str]) -> None:
    found = read("\n".join(["---", *lines]).encode("utf-8", "ignore"))

    assert all(problem.line is not None for problem in found.problems)
    assert all(agent.name == name for name, agent in found.agents.items())
