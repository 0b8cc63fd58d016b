"""The demo server's tools, called in this process; `test_demo` covers the way to them."""

import json
from threading import Event
from typing import Any

import jsonschema
import pytest

from supervisor.demo.protocol import call
from supervisor.demo.tool import Arguments, Control, Output, Tool
from supervisor.demo.tools import TOOLS

Json = dict[str, Any]
CONTROL = Control(Event(), lambda _progress, _total: None)


def text_of(result: Json) -> str:
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def test_tools_are_listed_by_name() -> None:
    assert list(TOOLS) == sorted(TOOLS)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_tool_is_titled_described_and_read_only(tool: Tool) -> None:
    shown = tool.definition

    jsonschema.Draft202012Validator.check_schema(shown["inputSchema"])
    jsonschema.Draft202012Validator.check_schema(shown.get("outputSchema", {}))
    assert shown["title"]
    assert shown["description"].endswith(".")
    assert shown["annotations"]["readOnlyHint"] is True
    assert shown["annotations"]["destructiveHint"] is False


DOCUMENT = {"a/b": [{"~": 1}, "two"], "": 0}
TOKYO = {"time": "2025-01-31T14:30", "from_zone": "Europe/Berlin", "to_zone": "Asia/Tokyo"}


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("hash_text", {"text": "abc"}, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("hash_text", {"text": "abc", "algorithm": "md5"}, "900150983cd24fb0d6963f7d28e17f72"),
        ("host_overview", {}, "available_bytes"),
        ("json_query", {"document": DOCUMENT, "pointer": "/a~1b/0/~0"}, "1"),
        ("json_query", {"document": '{"a": [true]}', "pointer": "/a/0"}, "true"),
        ("json_query", {"document": DOCUMENT, "pointer": "/"}, "0"),
        ("json_query", {"document": "[]"}, "[]"),
        ("text_diff", {"before": "a\nb", "after": "a\nc", "context": 0}, "-b\n+c"),
        ("text_diff", {"before": "a", "after": "a"}, "no difference"),
        ("time_convert", TOKYO, "2025-01-31T22:30:00+09:00"),
        ("time_convert", TOKYO | {"time": "2025-01-31T14:30Z"}, "2025-01-31T23:30:00+09:00"),
        ("time_now", {"zone": "Europe/Berlin"}, '"zone": "Europe/Berlin"'),
        ("time_now", {}, "+00:00"),
        ("wait_seconds", {"seconds": 0}, "waited 0 s"),
    ],
)
def test_a_tool_answers(name: str, arguments: Json, part: str) -> None:
    result = call(TOOLS[name], arguments, CONTROL)

    assert result["isError"] is False
    assert part in text_of(result)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hash_text", {"text": "abc"}),
        ("host_overview", {}),
        ("time_convert", TOKYO),
        ("time_now", {}),
    ],
)
def test_structured_output_fits_its_schema_and_equals_the_text(name: str, arguments: Json) -> None:
    result = call(TOOLS[name], arguments, CONTROL)

    jsonschema.validate(result["structuredContent"], TOOLS[name].definition["outputSchema"])
    assert json.loads(text_of(result)) == result["structuredContent"]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("hash_text", {}, "cannot do without 'text': The text to hash."),
        ("hash_text", {"text": 1}, "cannot use 'text': it must be a string"),
        ("hash_text", {"text": "", "algorithm": "crc"}, "it must be one of sha256, sha512, sha1, md5"),
        ("hash_text", {"text": "\ud800"}, "cannot hash the text; it holds half of a surrogate pair"),
        ("host_overview", {"x": 1}, "cannot use argument 'x'; this tool takes no arguments"),
        ("json_query", {"document": "{"}, "cannot read the document as JSON: Expecting"),
        ("json_query", {"document": "[" * 9999}, "cannot read the document as JSON: "),
        ("json_query", {"document": {}, "pointer": "a"}, "it must be empty or start with '/'"),
        ("json_query", {"document": DOCUMENT, "pointer": "/x"}, "cannot find the key 'x'; keys there: a/b, "),
        ("json_query", {"document": [1], "pointer": "/1"}, "the list there has 1, counted from 0"),
        ("json_query", {"document": 5, "pointer": "/a"}, "the value there is neither an object nor a list"),
        ("text_diff", {"before": "", "after": "", "context": 1.5}, "it must be an integer"),
        ("text_diff", {"before": "", "after": "x" * 200_001}, "it is longer than 200000 characters"),
        (
            "time_convert",
            TOKYO | {"time": "noon"},
            "cannot read the time 'noon'; write it as 2025-01-31T14:30",
        ),
        ("time_convert", TOKYO | {"time": "9999-12-31T23:00"}, "it leaves the years 1 to 9999"),
        (
            "time_now",
            {"zone": "Mars/Olympus"},
            "cannot find the time zone 'Mars/Olympus'; use a name such as",
        ),
        ("time_now", {"zone": "../../etc/passwd"}, "cannot find the time zone"),
        ("time_now", {"zone": "Europe"}, "cannot find the time zone"),
        ("time_now", {"zon": "UTC"}, "cannot use argument 'zon'; this tool takes zone"),
        ("wait_seconds", {"seconds": 61}, "it must be between 0 and 60"),
        ("wait_seconds", {"seconds": True}, "it must be a number"),
    ],
)
def test_a_wrong_argument_is_a_result_that_says_so(name: str, arguments: Json, sentence: str) -> None:
    result = call(TOOLS[name], arguments, CONTROL)

    assert result["isError"] is True
    assert text_of(result).startswith("cannot ")
    assert sentence in text_of(result)


def test_a_bug_in_a_tool_ends_its_call_only() -> None:
    def broken(_arguments: Arguments, _: Control) -> Output:
        raise ZeroDivisionError("by nothing")

    tool = Tool("broken", "Broken", "Fails.", broken, properties={})

    result = call(tool, {}, CONTROL)

    assert result["isError"] is True
    assert text_of(result) == "cannot finish broken: ZeroDivisionError: by nothing"
