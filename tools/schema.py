"""Write the JSON Schema of configuration files to data/mcp.schema.json, from the models in core/spec.

`python tools/schema.py` writes it, `python tools/schema.py --print` shows it. A test compares the two.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from supervisor.core.reading import Model
from supervisor.core.shapes import TRANSPORTS, Transport
from supervisor.core.spec import (
    Defaults,
    HttpEntry,
    HttpSettings,
    LimitSettings,
    RestartSpec,
    StdioEntry,
    SupervisorSettings,
)
from supervisor.surfaces.describe import meanings

TARGET = Path(__file__).parent.parent / "data" / "mcp.schema.json"
MODELS: tuple[type[Model], ...] = (
    Defaults,
    HttpEntry,
    HttpSettings,
    LimitSettings,
    RestartSpec,
    StdioEntry,
    SupervisorSettings,
)


def schema() -> dict[str, Any]:
    """The schema of a whole file, draft 2020-12."""
    definitions = _definitions()
    definitions["StdioEntry"]["properties"]["type"] = _type_property("stdio")
    definitions["HttpEntry"]["properties"]["type"] = _type_property("streamableHttp")
    definitions["StdioEntry"]["properties"]["command"] = _command_property(definitions)
    servers = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Entry"}}
    definitions["Entry"] = {"anyOf": [{"$ref": "#/$defs/StdioEntry"}, {"$ref": "#/$defs/HttpEntry"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP Supervisor configuration",
        "type": "object",
        "properties": {
            "$schema": {"type": "string"},
            "mcpServers": {"description": "The servers, by name.", **servers},
            "servers": {"description": "The servers, by name, as VS Code has them.", **servers},
            "mcp": {"description": "The servers as opencode has them.", "type": "object"},
            "supervisor": {"$ref": "#/$defs/SupervisorSettings"},
        },
        "$defs": dict(sorted(definitions.items())),
    }


def _definitions() -> dict[str, Any]:
    """Every model by its name, with what its keys mean."""
    _, definitions = msgspec.json.schema_components(MODELS, ref_template="#/$defs/{name}")
    shorts = {f"#/$defs/{model.__name__}": _short_form(model, definitions) for model in MODELS if model.short}
    for model in MODELS:
        properties = definitions[model.__name__]["properties"]
        explained = meanings(model)
        for key, found in properties.items():
            properties[key] = {**_with_short_form(found, shorts), "description": explained[key]}
    return definitions


def _short_form(model: type[Model], definitions: dict[str, Any]) -> dict[str, Any]:
    """What may stand for a whole object of this model."""
    return dict(definitions[model.__name__]["properties"][model.short])


def _with_short_form(found: dict[str, Any], shorts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    match found:
        case {"$ref": reference, **others} if reference in shorts:
            return {"anyOf": [shorts[reference], {"$ref": reference}], **others}
        case _:
            return found


def _type_property(transport: Transport) -> dict[str, Any]:
    names = [name for name, meaning in TRANSPORTS.items() if meaning == transport]
    return {"description": "How to reach the server; may be left out.", "enum": names}


def _command_property(definitions: dict[str, Any]) -> dict[str, Any]:
    """A program, or a program and its arguments in one list, as opencode writes it."""
    plain = definitions["StdioEntry"]["properties"]["command"]
    listed = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    return {
        "description": plain["description"],
        "anyOf": [{"type": "string"}, listed],
    }


def text() -> str:
    """The schema as it is stored."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    if "--print" in sys.argv[1:]:
        sys.stdout.write(text())
    else:
        TARGET.write_text(text())
