"""`call`: one tool call, from words to printed text. Ctrl-C cancels it at the server."""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from supervisor.cli.arguments import Given, build, needs_schema
from supervisor.cli.connection import PROMPTLY
from supervisor.cli.render import fit, screen_width
from supervisor.cli.values import array, mapping
from supervisor.core.printable import one_line, paragraphs
from supervisor.errors import DONE, FAILED, RefusedByPolicy, SupervisorError, UnknownTool
from supervisor.surfaces.client import SyncClient

LONGEST_CALL = 3600.0
"""Seconds that the daemon lets a call live at most, unless the configuration says otherwise."""
GRACE = 10.0
"""Seconds in which the daemon, which keeps the time itself, says that time is over."""
CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    given: Given
    approved: bool = False
    timeout: float | None = None


def call_tool(client: SyncClient, call: Call, *, as_json: bool) -> int:
    """Call the tool and print what it returned; a tool's own error goes to stderr."""
    try:
        result = _request(client, call, _arguments(client, call))
    except (UnknownTool, RefusedByPolicy) as error:
        raise _with_advice(error, _advice(client, call, error)) from None
    failed = result.get("isError") is True or _unfinished(result)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        print(paragraphs(flatten(result)), file=sys.stderr if failed else sys.stdout)
    return FAILED if failed else DONE


def flatten(result: Mapping[str, Any]) -> str:
    """Text blocks as they are and others as JSON, joined by line breaks."""
    if _unfinished(result):
        return f"cannot finish: the tool asks for input that this command cannot give: {json.dumps(result)}"
    return "\n".join(_block(block) for block in array(result.get("content"))) or "(no output)"


def _unfinished(result: Mapping[str, Any]) -> bool:
    return result.get("resultType") == "input_required"


def _block(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return json.dumps(block)


def _arguments(client: SyncClient, call: Call) -> dict[str, Any]:
    return build(call.given, _input_schema(client, call.tool) if needs_schema(call.given) else {})


def _input_schema(client: SyncClient, tool: str) -> Mapping[str, Any]:
    definition = client.request("tools/get", {"name": tool}, timeout=PROMPTLY)["tool"]
    return mapping(definition.get("inputSchema"))


def _request(client: SyncClient, call: Call, arguments: Mapping[str, Any]) -> Any:
    params: dict[str, Any] = {"name": call.tool, "arguments": arguments}
    if call.approved:
        params["approved"] = True
    if call.timeout is not None:
        params["timeout"] = call.timeout
    patience = GRACE + (LONGEST_CALL if call.timeout is None else call.timeout)
    if not sys.stderr.isatty():
        return client.request("tools/call", params, timeout=patience)
    params["_meta"] = {"progressToken": "call"}
    try:
        return client.request("tools/call", params, timeout=patience, on_notification=show_progress)
    finally:
        print(CLEAR_LINE, end="", file=sys.stderr, flush=True)


def show_progress(method: str, params: Any) -> None:
    """Rewrite the terminal's last line with how far the call is."""
    if method == "notifications/progress":
        line = fit(progress_line(mapping(params)), screen_width() - 1)
        print(CLEAR_LINE + line, end="", file=sys.stderr, flush=True)


def progress_line(params: Mapping[str, Any]) -> str:
    """`3/10 message`, as far as known."""
    total, message = params.get("total"), params.get("message")
    done = str(params.get("progress", "")) + ("" if total is None else f"/{total}")
    return one_line(" ".join(part for part in (done, message) if isinstance(part, str) and part))


def _with_advice(error: SupervisorError, advice: str | None) -> SupervisorError:
    advised = type(error)(f"{error}; {advice}" if advice else str(error))
    advised.data = error.data
    return advised


def _advice(client: SyncClient, call: Call, error: UnknownTool | RefusedByPolicy) -> str | None:
    """What to do next, where only this end knows it; the error itself matters more than a failure here."""
    with suppress(SupervisorError):
        match error:
            case UnknownTool():
                return _near_names(client, call.tool)
            case RefusedByPolicy() if not call.approved and _asks_for_approval(client, call.tool):
                return "repeat with --approve if you agree"
            case _:
                pass
    return None


def _near_names(client: SyncClient, name: str) -> str | None:
    from difflib import get_close_matches

    tools = client.request("tools/list", timeout=PROMPTLY)["tools"]
    near = get_close_matches(name, [tool["name"] for tool in tools])
    return f"did you mean {', '.join(near)}?" if near else None


def _asks_for_approval(client: SyncClient, tool: str) -> bool:
    known = mapping(client.request("tools/get", {"name": tool}, timeout=PROMPTLY))
    return known.get("approval") == "confirm"
