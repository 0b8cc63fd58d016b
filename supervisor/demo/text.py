"""Tools about text: its digest, what lies inside a JSON document, and how two versions differ."""

import json
from typing import Any, cast

from supervisor.demo.tool import Arguments, Control, Output, ToolError

_KEYS_SHOWN = 20


def hash_text(arguments: Arguments, _: Control) -> Output:
    import hashlib

    algorithm = arguments.get("algorithm", "sha256")
    try:
        content = arguments["text"].encode()
    except UnicodeEncodeError as error:
        raise ToolError("cannot hash the text; it holds half of a surrogate pair") from error
    digest = hashlib.new(algorithm, content, usedforsecurity=False)
    return {"algorithm": algorithm, "digest": digest.hexdigest(), "bytes": len(content)}


def text_diff(arguments: Arguments, _: Control) -> Output:
    from difflib import unified_diff

    before, after = arguments["before"].splitlines(), arguments["after"].splitlines()
    lines = unified_diff(before, after, "before", "after", n=arguments.get("context", 3), lineterm="")
    return "\n".join(lines) or "no difference"


def json_query(arguments: Arguments, _: Control) -> Output:
    document = arguments["document"]
    try:
        value = json.loads(document) if isinstance(document, str) else document
        for step in _steps(arguments.get("pointer", "")):
            value = _member(value, step)
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"cannot read the document as JSON: {error}") from error


def _steps(pointer: str) -> list[str]:
    """The steps of an RFC 6901 pointer."""
    if pointer and not pointer.startswith("/"):
        raise ToolError(f"cannot follow the pointer {pointer!r}; it must be empty or start with '/'")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _member(value: Any, step: str) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            if step in members:
                return members[step]
            known = ", ".join(list(members)[:_KEYS_SHOWN]) or "none"
            raise ToolError(f"cannot find the key {step!r}; keys there: {known}")
        case list():
            items = cast("list[object]", value)
            if step.isascii() and step.isdecimal() and int(step) < len(items):
                return items[int(step)]
            raise ToolError(f"cannot find the item {step!r}; the list there has {len(items)}, counted from 0")
        case _:
            raise ToolError(f"cannot go on to {step!r}; the value there is neither an object nor a list")
