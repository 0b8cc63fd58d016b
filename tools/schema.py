"""Write the JSON Schema of configuration files to data/mcp.schema.json, from the models in core/spec.

`python tools/schema.py` writes it, `python tools/schema.py --print` shows it. A test compares the two.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from typing_extensions import override

from supervisor.core.shapes import TRANSPORTS, Transport
from supervisor.core.spec import HttpEntry, StdioEntry, SupervisorSettings

TARGET = Path(__file__).parent.parent / "data" / "mcp.schema.json"


class _WithoutTitles(GenerateJsonSchema):
    """A title made from a key says nothing that the key does not."""

    @override
    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema() -> dict[str, Any]:
    """The schema of a whole file, draft 2020-12."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, "validation") for model in (StdioEntry, HttpEntry, SupervisorSettings)
    ]
    _, shared = models_json_schema(models, by_alias=True, schema_generator=_WithoutTitles)
    definitions = shared["$defs"]
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
