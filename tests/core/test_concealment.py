"""What people see of a configuration, and what they do not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.concealment import concealed, concealed_words
from supervisor.core.document import parse


def shown(entry: object) -> Any:
    """The entry as it is shown."""
    return json.loads(concealed(json.dumps({"mcpServers": {"a": entry}})))["mcpServers"]["a"]


def test_nothing_secret_is_left_in_a_concealed_text() -> None:
    text = """{
  // kept
  "mcpServers": {
    "a": {"env": {"KEY": "s3cret", "N": 5}, "command": "a", "args": ["x", ["y", {}]]},
    "b": {"headers": {"Authorization": "s3cret"}, "url": "http://me:s3cret@host/mcp"}
  }
}"""

    assert concealed(text) == text.replace('"s3cret"', '"***"').replace("5", '"***"').replace(
        "me:s3cret", "***"
    )
    assert concealed("") == ""


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"env": ["K=s3cret", "L=s3cret"]}, {"env": ["***", "***"]}),
        ({"env": [{"name": "K", "value": "s3cret"}]}, {"env": [{"name": "***", "value": "***"}]}),
        ({"environment": "K=s3cret"}, {"environment": "***"}),
        ({"env": {"K": {"nested": "s3cret"}, "L": None}}, {"env": {"K": {"nested": "***"}, "L": "***"}}),
        ({"oauth": {"clientSecret": "s3cret"}}, {"oauth": {"clientSecret": "***"}}),
        ({"apiKey": "s3cret", "timeout": 5}, {"apiKey": "***", "timeout": 5}),
        ({"url": "https://h/mcp?api_key=s3cret&p=1"}, {"url": "https://h/mcp?api_key=***&p=1"}),
        ({"url": "https://h/mcp?p=1&key=s3cret#x"}, {"url": "https://h/mcp?p=1&key=***#x"}),
        ({"args": ["--api-key", "s3cret", "-v"]}, {"args": ["--api-key", "***", "-v"]}),
        ({"args": ["Authorization: Bearer s3cret s3cret"]}, {"args": ["Authorization: ***"]}),
        ({"command": ["x", "--token=s3cret"]}, {"command": ["x", "--token=***"]}),
    ],
)
def test_a_secret_is_blotted_wherever_an_entry_has_it(entry: object, expected: object) -> None:
    assert shown(entry) == expected


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "@scope/server", "--root", "/srv"], "cwd": "/x"},
        {"url": "https://h/mcp?region=eu", "enabled": True, "tools": ["!delete_token"]},
        {"args": ["--token"], "command": "--verbose"},
    ],
)
def test_what_is_no_secret_is_shown_as_it_is(entry: object) -> None:
    assert shown(entry) == entry


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ('// "env": {"K": "s3cret"},', '// "env": {"K": "***"},'),
        ('//   "K": "s3cret"', '//   "K": "***"'),
        ('// "K": "s3cret', '// "K": "***"'),
        ('/* "args": ["--token",\n "s3cret"] */', '/* "args": ["***",\n "***"] */'),
        ("// export K=s3cret", "// export K=***"),
        ("// password: s3cret!", "// password: ***"),
        ("// Authorization: Bearer s3cret", "// Authorization: ***"),
        ("// see https://me:s3cret@host/x", "// see https://***@host/x"),
        ("// the old one was sk-ant-s3cret-0123456789", "// the old one was sk-***"),
        ("// what this machine offers", "// what this machine offers"),
    ],
)
def test_a_comment_may_be_an_entry_that_was_switched_off(comment: str, expected: str) -> None:
    assert concealed(f"{{\n  {comment}\n}}") == f"{{\n  {expected}\n}}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("npx -y server /srv", "npx -y server /srv"),
        ("x --token s3cret --verbose", "x --token *** --verbose"),
        ("x --token --verbose", "x --token --verbose"),
        ("x --db-password=s3cret", "x --db-password=***"),
        ("docker run -e K=s3cret -e L image", "docker run -e K=*** -e L image"),
        ("x --env=K=s3cret", "x --env=K=***"),
        ("x --header X-Mine:s3cret", "x --header X-Mine:***"),
        ("env GITHUB_TOKEN=s3cret x", "env GITHUB_TOKEN=*** x"),
        ("x postgres://me:s3cret@db/x", "x postgres://***@db/x"),
        ("x ${API_KEY:-s3cret} ${API_KEY}", "x ${API_KEY:***} ${API_KEY}"),
        ("https://h/?token=s3cret", "https://h/?token=***"),
    ],
)
def test_the_words_of_a_command_are_shown_without_its_secrets(words: str, expected: str) -> None:
    assert " ".join(concealed_words(words.split())) == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@given(document=values, indent=st.sampled_from([None, 2, "\t"]))
def test_a_concealed_document_has_the_same_lines_and_is_one(document: Any, indent: Any) -> None:
    text = json.dumps({"": document, "env": {"K": document}}, indent=indent, ensure_ascii=False)

    assert concealed(text).count("\n") == text.count("\n")
    assert parse(concealed(text).encode()).keys() == {"", "env"}


@given(secret=st.text(min_size=9).filter(lambda text: "*" not in text))
def test_no_value_of_a_variable_is_ever_shown(secret: str) -> None:
    for entry in ({"env": {"K": secret}}, {"env": [secret]}, {"headers": secret}):
        assert secret not in json.dumps(shown(entry), ensure_ascii=False)
