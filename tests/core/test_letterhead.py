"""What stands on every request: the session in one era, the request itself in the other."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.eras import MODERN
from supervisor.core.letterhead import Letterhead
from supervisor.core.routing import BadMark, header_value, marks, param_headers
from supervisor.errors import InvalidParams, Outcome

HANDSHAKE = "2025-11-25"
FORMS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def head(version: str, session_id: str = "") -> Letterhead:
    letterhead = Letterhead(lambda: version)
    letterhead.session_id = session_id
    return letterhead


@pytest.mark.parametrize(
    ("version", "method", "headers"),
    [
        ("", "initialize", {}),
        (HANDSHAKE, "initialize", {}),
        (HANDSHAKE, "tools/list", {"mcp-protocol-version": HANDSHAKE, "mcp-session-id": "s1"}),
        ("", "server/discover", {"mcp-protocol-version": MODERN, "mcp-method": "server/discover"}),
        (MODERN, "tools/list", {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}),
    ],
)
def test_a_request_says_what_its_era_asks_for(version: str, method: str, headers: dict[str, str]) -> None:
    assert head(version, "s1").request(method, b"{}") == FORMS | headers


@pytest.mark.parametrize(
    ("version", "headers"),
    [("", {}), (HANDSHAKE, {"mcp-protocol-version": HANDSHAKE}), (MODERN, {"mcp-protocol-version": MODERN})],
)
def test_what_is_no_request_says_the_version_alone(version: str, headers: dict[str, str]) -> None:
    assert head(version).plain() == FORMS | headers


def test_a_modern_call_names_its_tool_and_the_marked_arguments() -> None:
    letterhead = head(MODERN)
    letterhead.marks = {"find": {("region",): "mcp-param-region"}}

    headers = letterhead.request("tools/call", b'{"name":"find","arguments":{"region":"eu","text":"x"}}')

    assert headers["mcp-name"] == "find"
    assert headers["mcp-param-region"] == "eu"


def test_a_modern_call_of_an_unmarked_tool_names_it_and_no_more() -> None:
    headers = head(MODERN).request("tools/call", b'{"name":"caf\xc3\xa9","arguments":{"region":"eu"}}')

    assert headers["mcp-name"] == "=?base64?Y2Fmw6k=?="
    assert not [name for name in headers if name.startswith("mcp-param-")]


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000])
def test_arguments_that_cannot_be_read_are_refused_before_anything_is_sent(number: bytes) -> None:
    letterhead = head(MODERN)
    letterhead.marks = {"find": {("region",): "mcp-param-region"}}

    with pytest.raises(InvalidParams, match="cannot be put into headers") as refused:
        letterhead.request("tools/call", b'{"name":"find","arguments":{"region":%s}}' % number)

    assert refused.value.data["outcome"] == Outcome.REJECTED


def test_what_has_an_address_is_named_by_it() -> None:
    assert head(MODERN).request("resources/read", b'{"uri":"file:///a"}')["mcp-name"] == "file:///a"


@given(st.text())
def test_any_text_survives_as_a_header(text: str) -> None:
    value = header_value(text)

    assert value.isascii()
    assert value.isprintable()
    wrapped = value.removeprefix("=?base64?").removesuffix("?=")
    assert value == text == text.strip() or base64.b64decode(wrapped).decode() == text


def test_what_looks_wrapped_is_wrapped_again() -> None:
    assert header_value("=?base64?YQ==?=") == "=?base64?PT9iYXNlNjQ/WVE9PT89?="


def test_marks_are_found_along_property_names() -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    shard = {"type": "integer", "x-mcp-header": "Shard"}
    schema = {"properties": {"region": region, "where": {"properties": {"shard": shard, "free": {}}}}}

    assert marks(schema) == {("region",): "mcp-param-region", ("where", "shard"): "mcp-param-shard"}


MARKED = {"type": "string", "x-mcp-header": "Region"}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(MARKED, id="the root"),
        pytest.param({"items": MARKED}, id="any item"),
        pytest.param({"anyOf": [{"properties": {"a": MARKED}}]}, id="a choice"),
        pytest.param({"$defs": {"a": MARKED}}, id="a definition"),
        pytest.param({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}, id="no header name"),
        pytest.param({"properties": {"a": {"type": "string", "x-mcp-header": 1}}}, id="no name"),
        pytest.param({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}, id="a number"),
        pytest.param({"properties": {"a": {"type": ["string"], "x-mcp-header": "A"}}}, id="two types"),
        pytest.param(
            {"properties": {"a": MARKED, "b": {"type": "string", "x-mcp-header": "REGION"}}}, id="twice"
        ),
    ],
)
def test_a_mark_that_means_no_single_argument_spoils_the_tool(schema: object) -> None:
    with pytest.raises(BadMark):
        marks(schema)


@pytest.mark.parametrize(
    "schema",
    [None, True, {"default": {"x-mcp-header": "A"}}, {"properties": [], "anyOf": {}, "$defs": []}],
)
def test_what_is_no_schema_has_no_marks(schema: object) -> None:
    assert marks(schema) == {}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"a": {"b": "x"}}, {"h": "x"}),
        ({"a": {"b": 10**30}}, {"h": str(10**30)}),
        ({"a": {"b": True}}, {"h": "true"}),
        ({"a": {"b": False}}, {"h": "false"}),
        ({"a": {"b": None}}, {}),
        ({"a": {"b": ["x"]}}, {}),
        ({"a": "flat"}, {}),
        ([], {}),
    ],
)
def test_an_argument_becomes_a_header_if_it_has_a_plain_value(
    arguments: object, headers: dict[str, str]
) -> None:
    assert param_headers({("a", "b"): "h"}, arguments) == headers


def test_a_conversation_that_is_over_keeps_its_version_and_asks_nobody() -> None:
    agreed = ["2026-07-28"]
    letterhead = Letterhead(agreed.pop)

    letterhead.keep_version()

    assert letterhead.is_modern
    assert letterhead.is_modern
