"""`call`: one tool call, from words to printed text. Ctrl-C cancels it at the server."""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from supervisor.cli.arguments import Given, build, needs_schema, read_words
from supervisor.cli.grammar import Options, Parser, Verb, seconds
from supervisor.cli.render import fit, screen_width
from supervisor.cli.values import array, mapping
from supervisor.core.printable import one_line, paragraphs
from supervisor.errors import DONE, FAILED, RefusedByPolicy, SupervisorError, UnknownTool
from supervisor.surfaces.client import SyncClient
from supervisor.surfaces.exchange import Progress

CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    given: Given
    approved: bool = False
    timeout: float | None = None
    agent: str | None = None


def _declare(parser: Parser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="public name, as `tools` lists it")
    parser.add_argument(
        "rest",
        nargs="*",
        metavar="ARGUMENT",
        help="key=value by the tool's schema, key:=JSON, one JSON object, or - to read it from stdin",
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="give up after this long")
    parser.add_argument("--approve", action="store_true", help="agree to a tool that asks for confirmation")
    parser.add_argument("--agent", metavar="AGENT", help="call as this agent, with no more than its tools")


def call(options: Options) -> int:
    """Read the words, then call."""
    given = read_words(options.rest, stdin=sys.stdin)
    asked = Call(options.tool, given, approved=options.approve, timeout=options.timeout, agent=options.agent)
    with SyncClient(options.socket) as client:
        return call_tool(client, asked, as_json=options.json)


CALL = Verb(
    "call",
    "call a tool and print what it returns",
    """\
  mcp-supervisor call demo_time_now zone=Europe/Paris
  mcp-supervisor call search_find query='two words' limit=5 tags:='["a", "b"]'
  mcp-supervisor call search_find '{"query": "two words"}'
  generate-arguments | mcp-supervisor call search_find -
Control characters are shown escaped; --json gives the result as it was sent.
""",
    call,
    _declare,
    takes_more=True,
)


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
    definition = client.request("tools/get", {"name": tool})["tool"]
    return mapping(definition.get("inputSchema"))


def _request(client: SyncClient, call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
    watched = sys.stderr.isatty()
    try:
        return client.call(
            call.tool,
            arguments,
            timeout=call.timeout,
            approved=call.approved,
            agent=call.agent,
            on_progress=show_progress if watched else None,
        )
    finally:
        if watched:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)


def show_progress(progress: Progress) -> None:
    """Rewrite the terminal's last line with how far the call is."""
    line = fit(progress_line(progress), screen_width() - 1)
    print(CLEAR_LINE + line, end="", file=sys.stderr, flush=True)


def progress_line(progress: Progress) -> str:
    """`3/10 message`, as far as known."""
    done = str(progress.progress) + ("" if progress.total is None else f"/{progress.total}")
    return one_line(f"{done} {progress.message}" if progress.message else done)


def _with_advice(error: SupervisorError, advice: str | None) -> SupervisorError:
    advised = type(error)(f"{error}; {advice}" if advice else str(error))
    advised.data = error.data
    return advised


def _advice(client: SyncClient, call: Call, error: UnknownTool | RefusedByPolicy) -> str | None:
    """What to do next, where only this end knows it; the error itself matters more than a failure here."""
    with suppress(SupervisorError):
        match error:
            case UnknownTool():
                return _near_names(client, call)
            case RefusedByPolicy() if not call.approved and _asks_for_approval(client, call.tool):
                return "repeat with --approve if you agree"
            case _:
                pass
    return None


def _near_names(client: SyncClient, call: Call) -> str | None:
    from difflib import get_close_matches

    near = get_close_matches(call.tool, [tool["name"] for tool in client.tools(agent=call.agent)])
    return f"did you mean {', '.join(near)}?" if near else None


def _asks_for_approval(client: SyncClient, tool: str) -> bool:
    known = mapping(client.request("tools/get", {"name": tool}))
    return known.get("approval") == "confirm"
