"""Editing the text of a configuration: one server more or less, and not another byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.document import DocumentError, parse
from supervisor.core.edit import AlreadyThere, add_server, remove_server
from supervisor.errors import BadConfig, SupervisorError, UnknownServer

ENTRY = {"command": "npx", "args": ["-y", "x"]}

COMMENTED = """\
{
    // what this machine offers
    "mcpServers": {
        /* files first */
        "files": {
            "command": "files", // on PATH
            "args": [
                "--root",
                "/srv"
            ]
        } // the last one
    },
    "supervisor": {"policy": "open"}
}
"""
WITH_COMMA = '{\n\t"servers": {\n\t\t"a": {"command": "a"},\n\t},\n}\n'
INLINE = '{"mcp": {"servers": {"a": {"command": ["a"]}, "b": {"url": "http://b/"}}}}'
TEXTS = {
    "comments": COMMENTED,
    "trailing comma": WITH_COMMA,
    "one line": INLINE,
    "one line, trailing comma": '{"mcpServers": {"a": {"command": "a"},},}',
    "empty group": '{\n  "mcpServers": {}\n}\n',
    "empty group on one line": '{"mcpServers": {}}',
    "only a remark": '{\n  "mcpServers": { // none yet\n  }\n}\n',
    "only remarks": '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
    "only a remark on the same line": '{"mcpServers": { /* none */ }}',
    "only a long remark": '{"mcpServers": { /* none\n yet */ }}',
    "opencode 1": '{\n  "mcp": {\n    "a": {"type": "local", "command": ["a"]}\n  }\n}',
    "opencode 1 with a server called servers": '{"mcp": {"servers": {"type": "local", "command": ["a"]}}}',
    "a long remark after the last": '{\n  "mcpServers": {\n    "a": {"command": "a"} /* so\n it is */\n}\n}',
    "closed on the same line": '{\n  "mcpServers": {\n    "a": {"command": "a"}, // first\n    "b": {"url": "http://b"}}}',
    "carriage returns": COMMENTED.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + COMMENTED,
    "comma first": '{\n  "mcpServers": {\n    "a": {"command": "a"}\n  , "b": {"command": "b"}\n  }\n}',
}
GROUPS: dict[str, tuple[str, ...]] = {
    "trailing comma": ("servers",),
    "one line": ("mcp", "servers"),
    "opencode 1": ("mcp",),
    "opencode 1 with a server called servers": ("mcp",),
}
texts = pytest.mark.parametrize("kind", TEXTS)


def group(text: str, kind: str) -> Any:
    value = parse(text.encode())
    for key in GROUPS.get(kind, ("mcpServers",)):
        value = value[key]
    return value


@texts
def test_adding_adds_the_entry_and_nothing_else(kind: str) -> None:
    text = add_server(TEXTS[kind], "new", ENTRY)

    assert group(text, kind) == {**group(TEXTS[kind], kind), "new": ENTRY}
    assert list(group(text, kind))[-1] == "new"


@texts
def test_removing_what_was_added_leaves_the_text_as_it_was_but_for_white_space(kind: str) -> None:
    text = remove_server(add_server(TEXTS[kind], "new", ENTRY), "new")

    assert "".join(text.split()) == "".join(TEXTS[kind].split())


@pytest.mark.parametrize(
    "kind", ["comments", "trailing comma", "one line", "carriage returns", "comma first"]
)
def test_removing_what_was_added_leaves_every_byte_where_there_were_neighbours(kind: str) -> None:
    assert remove_server(add_server(TEXTS[kind], "new", ENTRY), "new") == TEXTS[kind]


@texts
def test_every_server_can_be_removed_and_the_others_stay(kind: str) -> None:
    before = group(TEXTS[kind], kind)

    for name in before:
        after = group(remove_server(TEXTS[kind], name), kind)
        assert after == {other: entry for other, entry in before.items() if other != name}


def test_a_new_entry_is_written_like_its_neighbours_and_comments_stay() -> None:
    added = add_server(COMMENTED, "new", ENTRY)

    assert added == COMMENTED.replace(
        "        } // the last one\n",
        """\
        }, // the last one
        "new": {
            "command": "npx",
            "args": [
                "-y",
                "x"
            ]
        }
""",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            WITH_COMMA,
            WITH_COMMA.replace('"a"},\n', '"a"},\n\t\t"new": {"command": "npx", "args": ["-y", "x"]},\n'),
        ),
        (
            '{"mcpServers": {"a": {"command": "a"}}}',
            '{"mcpServers": {"a": {"command": "a"}, "new": {"command": "npx", "args": ["-y", "x"]}}}',
        ),
        (
            '{\n\t"mcpServers": {}\n}\n',
            (
                '{\n\t"mcpServers": {\n\t\t"new": {\n\t\t\t"command": "npx",\n'
                '\t\t\t"args": ["-y", "x"]\n\t\t}\n\t}\n}\n'
            ),
        ),
    ],
    ids=["tabs and a trailing comma", "one line", "empty"],
)
def test_a_new_entry_follows_the_style_of_the_file(text: str, expected: str) -> None:
    assert add_server(text, "new", ENTRY) == expected


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_nothing_becomes_a_minimal_document(text: str) -> None:
    expected = '{\n  "mcpServers": {\n    "new": {\n      "command": "x"\n    }\n  }\n}\n'

    assert add_server(text, "new", {"command": "x"}) == expected


@pytest.mark.parametrize(
    ("remarks", "kept"),
    [
        ("// none yet", "// none yet\n"),
        ("/* none\r\nyet */\r\n\r\n", "/* none\r\nyet */\r\n"),
        ("\ufeff// mine\n", "\ufeff// mine\n"),
    ],
)
def test_remarks_alone_are_kept_above_a_new_document(remarks: str, kept: str) -> None:
    added = add_server(remarks, "new", {"command": "x"})

    assert added.startswith(f"{kept}{{")
    assert parse(added.encode()) == {"mcpServers": {"new": {"command": "x"}}}
    assert added.count("\r") in (0, added.count("\n"))


def test_a_document_without_servers_gets_the_group() -> None:
    text = '{\n  "supervisor": {\n    "policy": "open"\n  }\n}\n'

    added = add_server(text, "new", {"command": "x"})

    assert parse(added.encode()) == {**parse(text.encode()), "mcpServers": {"new": {"command": "x"}}}
    assert added.startswith(text[:-4])


@pytest.mark.parametrize(
    ("text", "place"),
    [('{"servers": {"a": {}}}', "servers.a"), ('{"mcpServers": {}, "mcp": {"a": {}}}', "mcp.a")],
)
def test_a_name_that_is_there_is_refused_wherever_it_is(text: str, place: str) -> None:
    with pytest.raises(AlreadyThere, match=place):
        add_server(text, "a", ENTRY)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("", "none"),
        ("// none\n", "none"),
        ("{}", "none"),
        ('{"servers": {"b": {}}, "mcp": {"c": {}}}', "b, c"),
    ],
)
def test_a_name_that_is_not_there_cannot_be_removed(text: str, known: str) -> None:
    with pytest.raises(UnknownServer, match=f"cannot find server 'a' in this file; it has: {known}"):
        remove_server(text, "a")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "it must be an object, not a list"),
        ('{"mcpServers": []}', "mcpServers must be an object, not a list"),
        ('{"mcp": {"servers": null}}', "mcp.servers must be an object, not null"),
        ('{"mcp": 1}', "mcp must be an object, not a number"),
    ],
)
def test_a_document_of_another_kind_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadConfig, match=reason):
        add_server(text, "a", ENTRY)


@pytest.mark.parametrize("text", ["[]", '{"mcp": 1}', '{"mcpServers": {"a": {}}}'])
def test_errors_name_the_file(text: str) -> None:
    with pytest.raises(SupervisorError, match="/etc/x"):
        add_server(text, "a", ENTRY, file="/etc/x")


def test_a_text_that_is_no_document_is_refused_with_its_place() -> None:
    with pytest.raises(DocumentError, match="line 1, column 2"):
        add_server("{", "a", ENTRY)


def test_an_entry_that_is_no_text_is_refused() -> None:
    with pytest.raises(BadConfig, match="not UTF-8"):
        add_server("{}", "a", {"command": "\udc80"})


names = st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable())
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)
entries = st.dictionaries(names, values, max_size=3)


@given(
    servers=st.dictionaries(names, entries, max_size=4),
    name=names,
    entry=entries,
    indent=st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    others=st.dictionaries(st.sampled_from(["$schema", "supervisor", "zz"]), entries, max_size=2),
)
def test_whatever_the_document_adding_and_removing_mean_what_they_say(
    servers: dict[str, Any], name: str, entry: dict[str, Any], indent: Any, others: dict[str, Any]
) -> None:
    servers.pop(name, None)
    document = {**others, "mcpServers": servers}
    text = json.dumps(document, indent=indent, ensure_ascii=False)

    added = add_server(text, name, entry)
    removed = remove_server(added, name)

    assert parse(added.encode()) == {**document, "mcpServers": {**servers, name: entry}}
    assert "".join(removed.split()) == "".join(text.split())
