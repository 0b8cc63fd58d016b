"""The models: defaults, bounds, strictness, and the schema that is made from them."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from supervisor.core.document import parse
from supervisor.core.problems import Invalid
from supervisor.core.reading import Model
from supervisor.core.spec import (
    Defaults,
    HttpEntry,
    HttpSettings,
    RestartSpec,
    StdioEntry,
    SupervisorSettings,
    check_url,
)

ROOT = Path(__file__).parents[2]


def test_the_defaults_of_a_stdio_server_are_those_of_the_design() -> None:
    entry = StdioEntry.read({"command": "x"})

    assert structs.asdict(entry) == {
        "type": "stdio",
        "command": "x",
        "args": (),
        "env": {},
        "cwd": None,
        "env_file": None,
        "inherit_env": (),
        "framing": "newline",
        "enabled": True,
        "restart": RestartSpec(policy="never", delay=0.5, max_delay=30.0, max_failures=5, window=300.0),
        "start": "eager",
        "idle_timeout": None,
        "start_timeout": 30.0,
        "call_timeout": 60.0,
        "max_call_time": 3600.0,
        "health_interval": None,
        "stop_grace": 5.0,
        "max_concurrency": None,
        "max_queue": 256,
        "tools": None,
        "prefix": None,
        "protocol": "auto",
        "roots": None,
        "critical": False,
        "exclusive": False,
    }


def test_an_http_server_is_reconnected_by_default() -> None:
    restart = HttpEntry.read({"url": "https://x"}).restart

    assert restart == RestartSpec(policy="on-failure", max_failures=10_000)


@pytest.mark.parametrize(
    ("written", "failures"),
    [
        ("on-failure", 10_000),
        ({"policy": "always", "delay": 1}, 10_000),
        ({"policy": "always", "maxFailures": 3}, 3),
    ],
)
def test_an_http_server_is_given_up_only_when_its_entry_says_so(written: object, failures: int) -> None:
    entry = HttpEntry.read({"url": "https://x", "restart": written})

    assert entry.restart.max_failures == failures


def test_the_defaults_of_the_daemon_are_those_of_the_design() -> None:
    settings = SupervisorSettings()

    assert (settings.policy, settings.tool_separator) == ("read-only", "_")
    assert (settings.max_result_bytes, settings.max_line_bytes) == (5 * 1024**2, 64 * 1024**2)
    assert settings.http == HttpSettings(host="127.0.0.1", port=9464)


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (StdioEntry, {"command": "x", "restart": "always"}),
        (StdioEntry, {"command": "x", "restart": {"policy": "always", "maxFailures": 3}}),
        (StdioEntry, {"command": "x", "args": ["a", ""], "env": {"A": ""}, "startTimeout": 1}),
        (StdioEntry, {"command": "x", "tools": ["a*", "!b"], "inheritEnv": ["A"], "cwd": "~/x"}),
        (StdioEntry, {"command": "x", "fromTheFuture": True}),
        (StdioEntry, {"command": "x", "roots": ["~/work", "..", "file:///srv", "${ROOT}"]}),
        (HttpEntry, {"url": "https://x", "roots": [], "healthInterval": 30}),
        (HttpEntry, {"url": "${URL}/mcp", "headers": {"X-Key": "${KEY}"}}),
        (SupervisorSettings, {"http": False, "agents": {"a": ["*"]}, "defaults": {"restart": "always"}}),
        (SupervisorSettings, {"http": {"port": 0}, "toolSeparator": "__"}),
    ],
)
def test_it_accepts(model: type[Model], document: dict[str, Any]) -> None:
    model.read(document)


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (StdioEntry, {"command": " "}),
        (StdioEntry, {"command": "a\0b"}),
        (StdioEntry, {"command": "x", "startTimeout": "30"}),
        (StdioEntry, {"command": "x", "startTimeout": float("nan")}),
        (StdioEntry, {"command": "x", "tools": [""]}),
        (StdioEntry, {"command": "x", "roots": [""]}),
        (StdioEntry, {"command": "x", "roots": ["https://x"]}),
        (StdioEntry, {"command": "x", "roots": ["file://srv"]}),
        (StdioEntry, {"command": "x", "healthInterval": 0}),
        (StdioEntry, {"command": "x", "tools": ["!"]}),
        (StdioEntry, {"command": "x", "env": {"": "x"}}),
        (StdioEntry, {"command": "x", "restart": {"policy": "always", "delay": 60}}),
        (HttpEntry, {"url": "https://x", "headers": {"A": "b\r\nC: d"}}),
        (HttpEntry, {"url": "https://x", "headers": {"A b": "c"}}),
        (HttpEntry, {"url": "https://x", "callTimeout": 60, "maxCallTime": 30}),
        (HttpEntry, {"url": "x.example/mcp"}),
        (SupervisorSettings, {"toolSeparator": "::"}),
        (SupervisorSettings, {"http": {"port": 70000}}),
        (SupervisorSettings, {"agents": {"a": ["x", "! "]}}),
        (SupervisorSettings, {"agents": {"": ["x"]}}),
    ],
)
def test_it_refuses(model: type[Model], document: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        model.read(document)


@pytest.mark.parametrize("url", ["http://127.0.0.1:80/mcp", "https://[::1]/x?y=z", "https://a.example"])
def test_an_address_is_accepted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mcp",
        "ftp://a",
        "https://",
        "http://a:99999",
        "http://[::1",
        "http://a b",
        "http://a:0",
        "http://a/\n",
    ],
)
def test_no_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"^must be an address such as https://example\.com/mcp$"):
        check_url(url)


def test_code_uses_names_and_a_file_only_its_own_spelling() -> None:
    assert (
        StdioEntry(command="x", start_timeout=1.0, restart=RestartSpec(policy="always")).start_timeout == 1.0
    )
    assert StdioEntry.read({"command": "x", "start_timeout": 1.0}).start_timeout == 30.0


def test_values_of_variables_and_headers_are_not_in_a_repr() -> None:
    stdio = StdioEntry(command="x", env={"A": "s3cret"})
    http = HttpEntry(url="https://x", headers={"A": "s3cret"})

    assert "s3cret" not in f"{stdio!r} {http!r} {stdio} {http}"


def test_defaults_give_only_what_is_written() -> None:
    defaults = Defaults.read({"stopGrace": 1, "inheritEnv": ["A"], "restart": "always"})

    assert defaults.written() == {"stopGrace": 1.0, "inheritEnv": ("A",), "restart": {"policy": "always"}}


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema_tool", ROOT / "tools" / "schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_schema_is_the_one_that_the_models_give() -> None:
    assert (ROOT / "data" / "mcp.schema.json").read_text() == load_tool().text(), "run python tools/schema.py"


def test_the_shipped_configuration_fits_the_shipped_schema() -> None:
    schema = json.loads((ROOT / "data" / "mcp.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)

    jsonschema.validate(parse((ROOT / "data" / "mcp.json").read_bytes()), schema)


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({"command": "x", "restart": "always"}, True),
        ({"command": ["x", "y"], "type": "local"}, True),
        ({"url": "https://x", "type": "http"}, True),
        ({"url": "https://x", "type": "sse"}, False),
        ({"command": "x", "restart": "often"}, False),
        ({"command": "x", "stopGrace": -1}, False),
        ({}, False),
    ],
)
def test_the_schema_judges_as_the_models_do(entry: dict[str, Any], fits: bool) -> None:
    schema = json.loads((ROOT / "data" / "mcp.schema.json").read_text())

    assert jsonschema.Draft202012Validator(schema).is_valid({"mcpServers": {"a": entry}}) is fits
