"""What a tool is: its face to an agent, and the little it may ask of the server while it runs."""

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
Arguments = Mapping[str, Any]
Output = str | JsonObject
"""Text, or an object that becomes structured content."""


class ToolError(Exception):
    """The tool cannot do what was asked; the message tells the caller why."""


class CallCancelled(Exception):
    """Nobody waits for the answer any more."""


class Control(NamedTuple):
    """What a long call may do: wait, say how far it has come, and learn that it was cancelled."""

    cancelled: Event
    report: Callable[[float, float], None]

    def wait(self, seconds: float) -> None:
        """Wait. Raises: CallCancelled, at once, when the caller gives up."""
        if self.cancelled.wait(seconds):
            raise CallCancelled


class Tool(NamedTuple):
    """One read-only tool. `run` gets arguments that fit the schema; it returns, or raises `ToolError`."""

    name: str
    title: str
    description: str
    run: Callable[[Arguments, Control], Output]
    properties: Mapping[str, JsonObject]
    required: tuple[str, ...] = ()
    output: Mapping[str, JsonObject] | None = None
    """The properties of the structured content, all of them always present."""
    slow: bool = False
    """May take long, so it runs in a thread of its own."""

    @property
    def input_schema(self) -> JsonObject:
        return {**_object(self.properties, self.required), "additionalProperties": False}

    @property
    def definition(self) -> JsonObject:
        """The tool as `tools/list` shows it."""
        shown = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }
        if self.output is not None:
            shown["outputSchema"] = _object(self.output, tuple(self.output))
        return shown


def _object(properties: Mapping[str, JsonObject], required: tuple[str, ...]) -> JsonObject:
    return {"type": "object", "properties": dict(properties), "required": list(required)}
