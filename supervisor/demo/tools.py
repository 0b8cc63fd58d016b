"""The tools of the demo server, as one table in the order of their names. What they do is next door."""

from collections.abc import Mapping

from supervisor.demo.clock import time_convert, time_now, wait_seconds
from supervisor.demo.host import host_overview
from supervisor.demo.text import hash_text, json_query, text_diff
from supervisor.demo.tool import JsonObject, Tool

LONGEST_HASHED = 1_000_000
LONGEST_COMPARED = 200_000
LONGEST_WAIT = 60


def _text(description: str, *, longest: int = 100) -> JsonObject:
    return {"type": "string", "description": description, "maxLength": longest}


def _number(kind: str, description: str, *, least: int, most: int) -> JsonObject:
    return {"type": kind, "description": description, "minimum": least, "maximum": most}


_MOMENT: Mapping[str, JsonObject] = {
    "time": {"type": "string", "description": "ISO 8601, with the offset."},
    "zone": {"type": "string"},
    "abbreviation": {"type": "string"},
    "weekday": {"type": "string"},
    "week": {"type": "integer", "description": "ISO week of the year."},
    "unix": {"type": "integer", "description": "Seconds since 1970-01-01 UTC."},
}

_SPACE: JsonObject = {
    "type": "object",
    "properties": {"total_bytes": {"type": "integer"}, "available_bytes": {"type": "integer"}},
    "required": ["total_bytes", "available_bytes"],
}

_ALL = (
    Tool(
        name="hash_text",
        title="Hash a text",
        description="The digest of a text in UTF-8, as hexadecimal digits.",
        run=hash_text,
        properties={
            "text": _text("The text to hash.", longest=LONGEST_HASHED),
            "algorithm": {
                "type": "string",
                "description": "Which digest; sha256 if left out.",
                "enum": ["sha256", "sha512", "sha1", "md5", "blake2b"],
            },
        },
        required=("text",),
        output={
            "algorithm": {"type": "string"},
            "digest": {"type": "string"},
            "bytes": {"type": "integer", "description": "Length of what was hashed."},
        },
    ),
    Tool(
        name="host_overview",
        title="Overview of this host",
        description="Processors, load, memory, swap and root disk of the machine the server runs on.",
        run=host_overview,
        properties={},
        output={
            "hostname": {"type": "string"},
            "kernel": {"type": "string"},
            "uptime_seconds": {"type": "integer"},
            "processors": {"type": "integer", "description": "Processors this server may use."},
            "load": {
                "type": "array",
                "items": {"type": "number"},
                "description": "Average over 1, 5 and 15 minutes.",
            },
            "memory": _SPACE,
            "swap": _SPACE,
            "disk": _SPACE,
        },
    ),
    Tool(
        name="json_query",
        title="Look inside a JSON document",
        description="The part of a JSON document that a JSON Pointer (RFC 6901) names, as indented JSON.",
        run=json_query,
        properties={
            "document": {"description": "The document: JSON as text, or the value itself."},
            "pointer": _text("Such as /servers/0/name; empty or left out for all of it.", longest=10_000),
        },
        required=("document",),
    ),
    Tool(
        name="text_diff",
        title="Compare two texts",
        description="The difference of two texts, line by line, as a unified diff.",
        run=text_diff,
        properties={
            "before": _text("The old text.", longest=LONGEST_COMPARED),
            "after": _text("The new text.", longest=LONGEST_COMPARED),
            "context": _number(
                "integer", "Unchanged lines around a change; 3 if left out.", least=0, most=100
            ),
        },
        required=("before", "after"),
        slow=True,
    ),
    Tool(
        name="time_convert",
        title="Convert a time to another zone",
        description="The same moment as the clocks of another time zone show it.",
        run=time_convert,
        properties={
            "time": _text("ISO 8601, such as 2025-01-31T14:30 or 2025-01-31T14:30+01:00."),
            "from_zone": _text("Zone of a time without an offset; UTC if left out."),
            "to_zone": _text("IANA name of the zone to convert to, such as Asia/Tokyo."),
        },
        required=("time", "to_zone"),
        output=_MOMENT,
    ),
    Tool(
        name="time_now",
        title="What time it is",
        description="The current date and time in a time zone.",
        run=time_now,
        properties={"zone": _text("IANA name of the zone, such as Europe/Berlin; UTC if left out.")},
        output=_MOMENT,
    ),
    Tool(
        name="wait_seconds",
        title="Wait a while",
        description="Waits, reporting progress every second. Good for trying timeouts and cancellation.",
        run=wait_seconds,
        properties={"seconds": _number("number", "How long to wait.", least=0, most=LONGEST_WAIT)},
        required=("seconds",),
        slow=True,
    ),
)

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}
