"""Fill in what is generated in docs/control-api.md and README.md: methods, shapes, errors, limits, keys.

Each generated part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; all else is written by hand.
`python tools/api_docs.py --write` replaces the parts, `python tools/api_docs.py` says which files are stale.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from supervisor.errors import Outcome
from supervisor.surfaces.describe import FAILURES, Failure, document, failures
from supervisor.surfaces.method import Description
from supervisor.surfaces.methods import DESCRIPTIONS, NOTIFICATIONS
from tools.schema import schema

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "control-api.md", ROOT / "README.md")

Schema = Mapping[str, Any]
Row = tuple[str, ...]

_MARKED = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
_REFERENCE = re.compile(r"#/(?:components/schemas|\$defs)/(\w+)")
_OUTCOMES = {
    Outcome.OK: "The tool answered.",
    Outcome.TOOL_ERROR: "The tool answered that it failed, or the server answered with an error of its own.",
    Outcome.REJECTED: "The call may not be made, or makes no sense: policy, params, unknown tool.",
    Outcome.NOT_SENT: "Nothing reached the server. Trying again is safe.",
    Outcome.UNKNOWN: "It was sent, and the server ended before it answered. The tool may have run.",
    Outcome.TIMED_OUT: "It was sent and not answered in time; the server is alive and was told to stop.",
    Outcome.CANCELLED: "The client cancelled it or left; the server was told.",
}


def table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def kind_of(schema: Schema) -> str:
    """What a value is, in a few words; a named shape is linked."""
    match schema:
        case {"$ref": reference}:
            name = _name(reference)
            return f"[{name}](#{name.lower()})"
        case {"anyOf": kinds}:
            return " or ".join(dict.fromkeys(map(kind_of, kinds)))
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values)
        case {"type": "array"}:
            return _kind_of_list(schema)
        case {"type": "object", "additionalProperties": values} if values:
            return f"object of {kind_of(values)}"
        case _:
            return str(schema.get("type", "any"))


def _kind_of_list(schema: Schema) -> str:
    if kinds := schema.get("prefixItems"):
        return f"list of {' and '.join(map(kind_of, kinds))}"
    return f"list of {kind_of(schema['items'])}"


def _name(reference: str) -> str:
    found = _REFERENCE.fullmatch(reference)
    assert found is not None, reference
    return found[1]


def default_of(schema: Schema, *, required: bool) -> str:
    if required:
        return "required"
    return f"`{_written(schema['default'])}`" if "default" in schema else "absent"


def _written(value: object) -> str:
    """The value as one would write it: 30, not 30.0."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


# The control API.


class ControlApi:
    """The generated parts of docs/control-api.md."""

    def __init__(self) -> None:
        self._document = msgspec.to_builtins(document(DESCRIPTIONS, NOTIFICATIONS))
        self._schemas: dict[str, Schema] = self._document["components"]["schemas"]
        results = [each.result.__name__ for each in DESCRIPTIONS.values() if each.result is not None]
        nested = _references(self._schemas)
        self._own = {
            name
            for name, uses in Counter(results).items()
            if name not in nested and (uses == 1 or not self._schemas[name]["properties"])
        }
        """Results that are shown with their method, and not among the shapes."""

    def parts(self) -> dict[str, str]:
        return {
            "errors": table(("code", "name", "meaning"), map(_failure, FAILURES)),
            "error-data": self._fields("ErrorData"),
            "outcomes": table(("outcome", "meaning"), map(_outcome, Outcome)),
            "methods": self._index() + "".join(self._method(*item) for item in DESCRIPTIONS.items()),
            "notifications": "".join(map(self._notification, self._document["x-notifications"])),
            "shapes": "".join(map(self._shape, self._shapes())),
            "limits": settings("LimitSettings", prefix="supervisor.limits."),
        }

    def _index(self) -> str:
        rows = [(f"[`{name}`](#{_anchor(name)})", each.summary) for name, each in DESCRIPTIONS.items()]
        return table(("method", "what it does"), rows)

    def _method(self, name: str, described: Description) -> str:
        example = {"jsonrpc": "2.0", "id": 1, "method": name, "params": dict(described.example)}
        if described.result is None:
            del example["id"]
        if not described.example:
            del example["params"]
        sent = json.dumps(example)
        parts = [f"\n### {name}\n\n{described.summary}\n\n```json\n{sent}\n```\n"]
        if described.params.__struct_fields__:
            parts.append(f"\n{self._fields(described.params.__name__, defaults=True)}")
        parts.append(self._result(described))
        if described.notifications:
            links = ", ".join(f"[`{each}`](#{_anchor(each)})" for each in described.notifications)
            parts.append(f"\n**Notifications:** {links}\n")
        if found := failures(described):
            codes = ", ".join(f"`{each.code}` {each.name}" for each in found)
            parts.append(f"\n**Errors:** {codes}\n")
        return "".join(parts)

    def _result(self, described: Description) -> str:
        if described.result is None:
            return "\nA notification: there is no answer.\n"
        name = described.result.__name__
        if name not in self._own:
            return f"\n**Result:** {kind_of({'$ref': f'#/components/schemas/{name}'})}\n"
        schema = self._schemas[name]
        fields = f"\n{self._fields(name)}" if schema["properties"] else ""
        return f"\n**Result:** {schema['description']}\n{fields}"

    def _notification(self, described: Schema) -> str:
        schema = described["schema"]
        kinds = kind_of(schema)
        return f"\n### {described['name']}\n\n{described['summary']} Params: {kinds}.\n"

    def _shapes(self) -> list[str]:
        params = {each.params.__name__ for each in DESCRIPTIONS.values()}
        return sorted(self._schemas.keys() - params - self._own - {"ErrorData"})

    def _shape(self, name: str) -> str:
        schema = self._schemas[name]
        head = f"\n### {name}\n\n{schema.get('description', '')}\n"
        return f"{head}\n{self._fields(name)}" if "properties" in schema else f"{head}\n{kind_of(schema)}\n"

    def _fields(self, name: str, *, defaults: bool = False) -> str:
        schema = self._schemas[name]
        head = ("field", "type", "default", "meaning") if defaults else ("field", "type", "meaning")
        rows: list[Row] = []
        for field, about in schema["properties"].items():
            needed = field in schema["required"]
            absence = "May be absent. " if not needed and not defaults and "default" not in about else ""
            meaning = absence + about.get("description", "")
            default = (default_of(about, required=needed),) if defaults else ()
            rows.append((f"`{field}`", kind_of(about), *default, meaning))
        return table(head, rows)


def _failure(failure: Failure) -> Row:
    return f"`{failure.code}`", failure.name, failure.meaning


def _outcome(outcome: Outcome) -> Row:
    return f"`{outcome}`", _OUTCOMES[outcome]


def _anchor(heading: str) -> str:
    """How GitHub names the place of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _references(value: object) -> set[str]:
    """The names of all schemas that something refers to."""
    return {found[1] for found in _REFERENCE.finditer(json.dumps(value))}


# The configuration.


def settings(model: str, *, prefix: str = "", only: Callable[[str], bool] = lambda _key: True) -> str:
    """The keys of a model in core/spec."""
    found: Schema = schema()["$defs"][model]
    rows = [
        (f"`{prefix}{key}`", _default(about, required=key in found.get("required", ())), about["description"])
        for key, about in found["properties"].items()
        if only(key)
    ]
    return table(("key", "default", "meaning"), rows)


def _default(about: Schema, *, required: bool) -> str:
    match about.get("default"):
        case {"policy": str(policy)}:
            return f'`"{policy}"`'
        case {**members}:
            return "see its keys" if members else "`{}`"
        case _:
            return default_of(about, required=required)


def configuration() -> dict[str, str]:
    """The generated parts of README.md."""
    definitions = schema()["$defs"]
    stdio, http = (definitions[name]["properties"] for name in ("StdioEntry", "HttpEntry"))
    common = stdio.keys() & http.keys() - {"type"}
    return {
        "keys-of-every-server": settings("StdioEntry", only=lambda key: key in common),
        "keys-of-stdio-servers": settings("StdioEntry", only=lambda key: key not in common),
        "keys-of-http-servers": settings("HttpEntry", only=lambda key: key not in common),
        "keys-of-restart": settings("RestartSpec", prefix="restart."),
        "keys-of-the-daemon": settings("SupervisorSettings", prefix="supervisor."),
        "keys-of-limits": settings("LimitSettings", prefix="supervisor.limits."),
        "keys-of-http": settings("HttpSettings", prefix="supervisor.http."),
    }


# The files.


def fill(text: str, parts: Mapping[str, str]) -> str:
    """The text with every generated part as it should be."""
    return _MARKED.sub(lambda found: f"{found[1]}{parts[found[2]]}{found[3]}", text)


def parts_in(text: str) -> list[str]:
    return [found[2] for found in _MARKED.finditer(text)]


def refresh(pages: Iterable[Path], *, write: bool) -> list[Path]:
    """The pages whose generated parts are not as they should be; with `write`, they are mended."""
    parts = {**ControlApi().parts(), **configuration()}
    stale: list[Path] = []
    for page in pages:
        before = page.read_text()
        after = fill(before, parts)
        if before != after:
            stale.append(page)
            if write:
                page.write_text(after)
    return stale


def main(arguments: Sequence[str]) -> int:
    write = "--write" in arguments
    stale = refresh(PAGES, write=write)
    for page in stale:
        print(f"{page}: {'written' if write else 'stale; run python tools/api_docs.py --write'}")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
