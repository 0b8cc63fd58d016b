"""The description of the control API: complete, well-formed, and true of what a daemon answers."""

import importlib.util
import inspect
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import msgspec
import pytest

from supervisor import errors
from supervisor.runtime.calls import CallRequest
from supervisor.surfaces.describe import FAILURES, document, failures, meanings
from supervisor.surfaces.methods import DESCRIPTIONS, METHODS, NOTIFICATIONS
from supervisor.surfaces.models import CallParams, CancelledParams
from supervisor.surfaces.tool_methods import CancelParams
from tests.e2e.support import Client, Daemon, Launcher, fake, launching, until

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = json.loads(msgspec.json.encode(document(DESCRIPTIONS, NOTIFICATIONS)))
BY_NAME: dict[str, dict[str, Any]] = {method["name"]: method for method in DOCUMENT["methods"]}
SERVED_BY_CONTROL = {"tools/call", "notifications/cancelled"}


def fits(value: object, schema: dict[str, Any]) -> bool:
    """Whether the value is what the schema says, its references looked up in the document."""
    validator = jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    return validator.is_valid(value)


def references(value: object) -> Iterator[str]:
    match value:
        case {"$ref": str(reference)}:
            yield reference
        case dict():
            for part in value.values():
                yield from references(part)
        case list():
            for part in value:
                yield from references(part)
        case _:
            pass


def look_up(reference: str) -> Any:
    found: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


# The document.


def test_the_document_has_what_openrpc_requires() -> None:
    assert DOCUMENT["openrpc"] == "1.3.2"
    assert DOCUMENT["info"].keys() >= {"title", "version"}
    assert DOCUMENT.keys() == {
        *("openrpc", "info", "methods", "components"),
        *("x-notifications", "x-error-data"),
    }


def test_every_method_is_described_once() -> None:
    names = [method["name"] for method in DOCUMENT["methods"]]

    assert sorted(names) == sorted(METHODS.keys() | SERVED_BY_CONTROL)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_method_has_what_openrpc_requires(name: str) -> None:
    method = BY_NAME[name]

    assert method["summary"].endswith(".")
    assert method["paramStructure"] == "by-name"
    assert all(param.keys() >= {"name", "schema"} for param in method["params"])
    assert ("result" in method) is not name.startswith("notifications/")


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))

    assert found
    assert all(look_up(reference) for reference in found)


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_schema_is_a_json_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_the_example_of_a_method_is_accepted(name: str) -> None:
    described, params = DESCRIPTIONS[name], BY_NAME[name]["params"]
    example = dict(described.example)

    msgspec.convert(example, described.params)
    assert {param["name"] for param in params if param["required"]} <= example.keys()
    assert all(fits(example[param["name"]], param["schema"]) for param in params if param["name"] in example)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("servers/get", {}),
        ("servers/get", {"server": 1}),
        ("servers/logs", {"server": "a", "lines": -1}),
        ("servers/stop", {"server": "a", "wait": "no"}),
        ("tools/list", {"tools": "demo_*"}),
        ("events/subscribe", {"kinds": ["weather"]}),
        ("supervisor/reload", {"dryRun": None}),
    ],
)
def test_model_and_schema_refuse_the_same_params(method: str, params: dict[str, Any]) -> None:
    model = DESCRIPTIONS[method].params

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(params, model)
    assert not fits(params, {"$ref": f"#/components/schemas/{model.__name__}"})


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_field_has_a_meaning(name: str) -> None:
    fields = DOCUMENT["components"]["schemas"][name].get("properties", {})

    assert not [field for field, about in fields.items() if not about.get("description", "").endswith(".")]


def test_every_notification_that_a_method_causes_is_described() -> None:
    caused = {name for each in DESCRIPTIONS.values() for name in each.notifications}

    assert caused == NOTIFICATIONS.keys()


def test_every_error_code_is_described_once() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if hasattr(kind, "code")]
    codes = [each.code for each in FAILURES]

    assert {kind.code for kind in kinds} | {errors.PARSE_ERROR} == set(codes)
    assert len(codes) == len(set(codes))


def test_a_notification_ends_in_no_error() -> None:
    assert failures(DESCRIPTIONS["notifications/cancelled"]) == ()


def test_a_field_means_what_stands_below_it_in_this_class_or_an_earlier_one() -> None:
    detail = meanings(DESCRIPTIONS["servers/get"].result or object)

    assert detail["noise"] == "Lines on standard output that were not MCP."
    assert detail["rss"] == "Resident bytes of the process tree."


def test_a_model_without_source_has_no_meanings() -> None:
    model = msgspec.defstruct("Made", [("name", str)], module="builtins")

    assert meanings(model) == {}


# Shapes that no handler makes.


def test_a_call_is_described_as_it_is_read() -> None:
    read, described = (msgspec.inspect.type_info(model) for model in (CallRequest, CallParams))
    assert isinstance(read, msgspec.inspect.StructType)
    assert isinstance(described, msgspec.inspect.StructType)

    assert [(field.encode_name, field.required) for field in described.fields] == [
        (field.encode_name, field.required) for field in read.fields
    ]
    assert {field.name: field.default for field in described.fields if field.default in (None, False)} == {
        field.name: field.default for field in read.fields if field.default in (None, False)
    }


def test_a_cancellation_is_described_as_it_is_read() -> None:
    assert CancelledParams.__struct_encode_fields__[:1] == CancelParams.__struct_encode_fields__


# What a daemon really answers.


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    with launching(tmp_path_factory.mktemp("described")) as launcher:
        yield launcher


@pytest.fixture(scope="module")
def daemon(launcher: Launcher) -> Daemon:
    servers = {
        "demo": fake("--stderr", "hello"),
        "off": fake(enabled=False),
        "spare": fake(enabled=False),
        "broken": {"command": "/none"},
        "flaky": fake(restart={"policy": "always", "delay": 30}),
    }
    return launcher.start(servers, agents={"reader": ["demo_*", "demo_gone"]})


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("supervisor/ping", {}),
    ("supervisor/info", {}),
    ("supervisor/describe", {}),
    ("supervisor/reload", {"dryRun": True}),
    ("servers/list", {}),
    *(("servers/get", {"server": name}) for name in ("demo", "off", "broken")),
    *(("servers/why", {"server": name}) for name in ("demo", "off", "broken")),
    ("servers/logs", {"server": "demo", "lines": 5}),
    ("servers/stop", {"server": "off"}),
    ("servers/start", {"server": "demo"}),
    ("servers/restart", {"server": "demo"}),
    ("servers/enable", {"server": "spare"}),
    ("servers/disable", {"server": "off"}),
    ("tools/list", {}),
    ("tools/list", {"since": 1, "all": True}),
    ("tools/get", {"name": "demo_echo"}),
    ("tools/call", {"name": "demo_echo", "arguments": {"text": "hello"}}),
    ("tools/call", {"name": "demo_echo", "arguments": {"text": "hello"}, "flatten": True}),
    ("agents/list", {}),
    ("agents/get", {"agent": "reader"}),
    ("events/subscribe", {"kinds": ["log"]}),
]


@pytest.mark.parametrize(("method", "params"), ASKED)
def test_an_answer_is_what_the_description_says(client: Client, method: str, params: dict[str, Any]) -> None:
    answer = client.result(method, **params)

    result = BY_NAME[method]["result"]["schema"]
    assert fits(answer, result)
    assert answer.keys() <= look_up(result["$ref"])["properties"].keys()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("servers/get", {"server": "nobody"}, errors.UnknownServer.code),
        ("servers/start", {"server": "broken"}, errors.ServerUnavailable.code),
        ("servers/start", {"server": "off"}, errors.ServerUnavailable.code),
        ("tools/get", {"name": "nobody_has"}, errors.UnknownTool.code),
        ("tools/call", {"name": "nobody_has"}, errors.UnknownTool.code),
        ("tools/call", {"name": "demo_echo", "tools": ["other_*"]}, errors.RefusedByPolicy.code),
        ("agents/get", {"agent": "nobody"}, errors.INVALID_PARAMS),
        ("tools/list", {"agent": 1}, errors.INVALID_PARAMS),
    ],
)
def test_an_error_is_what_the_description_says(
    client: Client, method: str, params: dict[str, Any], code: int
) -> None:
    error = client.error(method, **params)

    assert error["code"] == code
    assert code in [each.code for each in failures(DESCRIPTIONS[method])]
    assert fits(error.get("data", {}), DOCUMENT["x-error-data"])


def test_news_are_what_the_description_says(client: Client) -> None:
    schema = DOCUMENT["x-notifications"][list(NOTIFICATIONS).index("notifications/events")]["schema"]
    client.result("events/subscribe", kinds=["transition", "catalog", "log"])
    client.ask("servers/restart", server="demo")

    messages = list(_until_answered(client))

    assert {message["params"]["kind"] for message in messages} >= {"transition", "log"}
    assert all(fits(message["params"], schema) for message in messages)


def test_followed_lines_are_what_the_description_says(client: Client) -> None:
    schema = DOCUMENT["x-notifications"][list(NOTIFICATIONS).index("notifications/log")]["schema"]
    client.result("servers/logs", server="demo", follow=True)
    client.ask("servers/restart", server="demo")

    messages = list(_until_answered(client))

    assert {message["method"] for message in messages} == {"notifications/log"}
    assert all(fits(message["params"], schema) for message in messages)


def test_a_tool_whose_server_is_on_its_way_back_is_unavailable_and_not_unknown(client: Client) -> None:
    os.kill(client.server("flaky")["pid"], signal.SIGKILL)
    until(lambda: client.server("flaky")["phase"] == "backoff")

    error = client.error("tools/get", name="flaky_echo")

    assert error["code"] == errors.ServerUnavailable.code
    assert error["data"]["retryAfter"] > 0
    assert fits(error["data"], DOCUMENT["x-error-data"])


def _until_answered(client: Client) -> Iterator[dict[str, Any]]:
    """The notifications before the next answer."""
    while "id" not in (message := client.receive()):
        yield message


# The documentation.


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_docs", ROOT / "tools" / "api_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documentation_is_the_one_that_the_table_gives() -> None:
    tool = load_tool()
    text = (ROOT / "docs" / "control-api.md").read_text()
    parts = tool.ControlApi().parts()

    assert sorted(tool.parts_in(text)) == sorted(parts)
    assert text == tool.fill(text, parts), "run python tools/api_docs.py --write"
