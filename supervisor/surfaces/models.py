"""Shapes on the control socket that no handler makes: payloads that pass as bytes, and data of errors.

They are written down here for clients, in `describe` and in the documentation, and nothing is encoded or
decoded by them. Tests hold them against what is really sent.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from supervisor.errors import Outcome

Id = int | str | float | None
JsonObject = Mapping[str, Any]


class CallParams(msgspec.Struct, rename="camel", frozen=True):
    """A tool call; `CallRequest` is what reads it."""

    name: str
    """The tool's public name, as `tools/list` gives it."""
    arguments: JsonObject = {}
    """The tool's arguments; passed to the server as they are."""
    meta: JsonObject | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")
    """MCP's `_meta`; with a `progressToken`, progress is sent under that token."""
    input_responses: Any = msgspec.UNSET
    """For a retry after an `input_required` result: the answers, as MCP has them."""
    request_state: Any = msgspec.UNSET
    """For such a retry: the state that the result carried."""
    agent: str | None = None
    """The agent that calls; a tool that its patterns do not allow is refused."""
    tools: tuple[str, ...] | None = None
    """Patterns of the caller's own, beside those of the agent."""
    approved: bool = False
    """That a person has agreed; needed for tools with approval `confirm`."""
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds until it is given up, more than 0; null is the server's `callTimeout`. Progress extends it."""
    flatten: bool = False
    """Answer with `{error, output}`, all content as one text, in place of MCP's result."""


class CallResult(msgspec.Struct, rename="camel", frozen=True):
    """MCP's `CallToolResult` as the server sent it, with all else it holds; plain text with `flatten`."""

    content: tuple[JsonObject, ...] | msgspec.UnsetType = msgspec.UNSET
    """Blocks of text, images, audio, links and resources."""
    structured_content: Any = msgspec.UNSET
    """The result as JSON, when the tool has an output schema."""
    is_error: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether the tool failed; its content says how."""
    result_type: str | msgspec.UnsetType = msgspec.UNSET
    """`complete`, or `input_required` when the tool wants something first; from servers of 2026-07-28."""
    input_requests: Any = msgspec.UNSET
    """With `input_required`: what it wants. Answer with `inputResponses` in a call of the same tool."""
    request_state: Any = msgspec.UNSET
    """With `input_required`: what to give back in that call."""
    meta: JsonObject | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")
    """MCP's `_meta`."""
    error: bool | msgspec.UnsetType = msgspec.UNSET
    """With `flatten`: whether the tool failed or the server could not be reached."""
    output: str | msgspec.UnsetType = msgspec.UNSET
    """With `flatten`: all content as text; blocks that are no text as JSON."""


class CancelledParams(msgspec.Struct, rename="camel", frozen=True):
    """Which call the client no longer wants."""

    request_id: Id
    """The id of the `tools/call` request, on this connection."""
    reason: str | None = None
    """Why; for the log of whoever reads the wire."""


class Progress(msgspec.Struct, rename="camel", frozen=True):
    """MCP's progress of a call under way, under the client's own token."""

    progress_token: Id
    """The `_meta.progressToken` of the call."""
    progress: float
    """How far the tool has come; it only grows."""
    total: float | msgspec.UnsetType = msgspec.UNSET
    """How far there is to go, when the server knows."""
    message: str | msgspec.UnsetType = msgspec.UNSET
    """What the tool is doing."""


class LostEvent(msgspec.Struct, frozen=True, tag_field="kind", tag="lost"):
    """The client read too slowly, and the oldest of its news were dropped."""

    count: int
    """How many, since the last that it was sent."""


class AgentView(msgspec.Struct, rename="camel", frozen=True):
    """A named set of patterns."""

    name: str
    """What requests call it."""
    patterns: tuple[str, ...]
    """Public names, globs with `*`, and `!` to deny; the last match wins."""
    source: str
    """The file that describes it."""
    tools: int
    """How many tools it allows now."""


class AgentList(msgspec.Struct, rename="camel", frozen=True):
    """Every agent."""

    agents: tuple[AgentView, ...]
    """Sorted by name."""


class AgentDetail(msgspec.Struct, rename="camel", frozen=True):
    """One agent, with the tools themselves."""

    name: str
    """What requests call it."""
    patterns: tuple[str, ...]
    """Public names, globs with `*`, and `!` to deny; the last match wins."""
    source: str
    """The file that describes it."""
    tools: tuple[str, ...]
    """The public names that it allows now."""
    unmatched: tuple[str, ...]
    """Exact names among the patterns that no server has or had, nor could yet list."""


class ErrorExit(msgspec.Struct, rename="camel", frozen=True):
    """How a server ended, in the data of an error."""

    reason: str
    """In words."""
    code: int | None
    """The exit code, when it exited."""
    signal: int | None
    """The signal, when one killed it."""
    at: float | msgspec.UnsetType = msgspec.UNSET
    """When; absent from the error of a call that saw it happen."""


class ErrorData(msgspec.Struct, rename="camel", frozen=True):
    """The `data` of an error: what is known beside the sentence. Every field may be absent."""

    server: str | msgspec.UnsetType = msgspec.UNSET
    """The server that the request was about."""
    outcome: Outcome | msgspec.UnsetType = msgspec.UNSET
    """What became of the call."""
    phase: str | msgspec.UnsetType = msgspec.UNSET
    """The server's phase at that moment."""
    exit: ErrorExit | msgspec.UnsetType = msgspec.UNSET
    """How the server's last run ended."""
    stderr: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The last lines that the server wrote to its standard error, without secrets."""
    retry_after: float | msgspec.UnsetType = msgspec.UNSET
    """Seconds until the server is tried again."""
    problems: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Everything that is wrong with the configuration, with file and place."""
