"""What is said to servers of either era, and how their greetings are understood."""

import json

import msgspec
import pytest

from supervisor.core import eras

ME = {"name": "mcp-supervisor", "version": "1"}


def greeting(**fields: object) -> eras.Greeting:
    return eras.read_greeting(json.dumps(fields).encode())


def test_a_modern_request_describes_itself() -> None:
    stamp = json.loads(b"{%s}" % eras.identity_stamp(ME))

    assert stamp == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": ME,
        "io.modelcontextprotocol/clientCapabilities": {},
    }


def test_a_handshake_offers_the_latest_version_of_its_era() -> None:
    assert json.loads(eras.initialize_params(ME, roots=False)) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": ME,
    }


def test_a_handshake_says_that_roots_can_be_asked_for_where_there_are_any() -> None:
    assert json.loads(eras.initialize_params(ME, roots=True))["capabilities"] == {"roots": {}}


def test_a_greeting_of_the_handshake_era_is_read() -> None:
    found = greeting(protocolVersion="2025-06-18", serverInfo={"name": "x"}, capabilities={"tools": {}})

    assert found.protocol_version == "2025-06-18"
    assert found.server_info == {"name": "x"}
    assert eras.offers_tools(found)


def test_a_greeting_of_the_modern_era_is_read() -> None:
    found = greeting(supportedVersions=["2026-07-28"], unknown=1)

    assert found.supported_versions == ("2026-07-28",)
    assert not eras.offers_tools(found)


IDENTITY = {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"_meta": IDENTITY}, {"name": "x", "version": "1"}),
        ({"_meta": IDENTITY, "serverInfo": {"name": "y"}}, {"name": "y"}),
        ({"_meta": {"other": 1}}, {}),
        ({"_meta": "nonsense"}, {}),
        ({"_meta": {"io.modelcontextprotocol/serverInfo": "nonsense"}}, {}),
        ({"serverInfo": {"name": "x" * 70_000}}, {}),
        ({"serverInfo": {"name": json.loads("[" * 50 + "]" * 50)}}, {}),
        ({}, {}),
    ],
)
def test_a_modern_server_introduces_itself_in_the_meta_of_its_answer(
    fields: dict[str, object], said: dict[str, str]
) -> None:
    assert greeting(supportedVersions=["2026-07-28"], **fields).server_info == said


@pytest.mark.parametrize(
    "raw", [b"[]", b'"hello"', b"null", b'{"protocolVersion":5}', b'{"supportedVersions":"all"}', b"{"]
)
def test_what_is_no_greeting_is_an_error(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        eras.read_greeting(raw)


@pytest.mark.parametrize(
    ("data", "versions"),
    [
        (b'{"supported":["2025-11-25","2024-11-05"],"requested":"x"}', ("2025-11-25", "2024-11-05")),
        (b"{}", ()),
        (b'{"supported":"2025-11-25"}', ()),
        (b"null", ()),
        (b"", ()),
    ],
)
def test_supported_versions_are_read_as_far_as_they_can_be(data: bytes, versions: tuple[str, ...]) -> None:
    assert eras.supported_versions(data) == versions


@pytest.mark.parametrize(
    ("capabilities", "announces"),
    [
        ({"tools": {"listChanged": True}}, True),
        ({"tools": {"listChanged": False}}, False),
        ({"tools": {}}, False),
        ({"tools": {"listChanged": "yes"}}, False),
        ({"tools": None}, False),
        ({"prompts": {"listChanged": True}}, False),
        ({}, False),
    ],
)
def test_only_a_clear_word_announces_tool_changes(capabilities: dict[str, object], announces: bool) -> None:
    assert eras.announces_tool_changes(greeting(capabilities=capabilities)) == announces
