"""The settings of the daemon and of one server, as models: every key, its default and its bounds.

A model is made from an object that `shapes` has brought into this project's own spelling; `reading` has the
rules for that. Strings are templates; `servers` fills them in. Unknown keys are ignored here and named by
`problems.unknown_keys`. The JSON Schema in `data/` is generated from this file, so a docstring below a field
is what an editor shows.
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from msgspec import Meta
from typing_extensions import override

from supervisor.core.agents import check_pattern
from supervisor.core.interpolate import is_literal
from supervisor.core.reading import Check, Model

HOUR = 3600.0
DAY = 24 * HOUR
MOST_FAILURES = 10_000
MIB = 1024 * 1024

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_url(url: str) -> None:
    """Accept an address that Streamable HTTP can reach.

    Raises:
        ValueError: It is none; the message does not repeat it, because it may hold a secret.
    """
    wrong = "must be an address such as https://example.com/mcp"
    try:
        parts = urlsplit(url)
        reachable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(wrong) from None
    if not reachable or any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError(wrong)


def check_root(root: str) -> None:
    """Accept a directory or file that a server may be told of.

    Raises:
        ValueError: It is an address of another kind; the message does not repeat it, as above.
    """
    if "://" in root and not root.startswith("file:///"):
        raise ValueError("must be a path, or an address such as file:///home/me/project")


def _check_root(template: str) -> None:
    if is_literal(template):
        check_root(template)


def _check_url(template: str) -> None:
    if is_literal(template):
        check_url(template)


def _check_nul(text: str) -> None:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")


def _check_filled(text: str) -> None:
    if not text.strip():
        raise ValueError("must not be empty")


def _check_variable_name(name: str) -> None:
    if not name or "=" in name:
        raise ValueError("must be the name of a variable, not empty and without =")


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError("must be the name of a header: letters, digits and hyphens")


def _check_header_value(value: str) -> None:
    if "\n" in value or "\r" in value:
        raise ValueError("must not hold a line break")


def _check_off(value: bool) -> None:  # noqa: FBT001 - the value of a key
    if value:
        raise ValueError("must be an object, not true")


String = Annotated[str, Check(_check_nul)]
Filled = Annotated[String, Check(_check_filled)]
VariableName = Annotated[String, Check(_check_variable_name)]
HeaderName = Annotated[str, Check(_check_header_name)]
HeaderValue = Annotated[String, Check(_check_header_value)]
Patterns = tuple[Annotated[String, Check(check_pattern)], ...]
Roots = tuple[Annotated[Filled, Check(_check_root)], ...]
Timeout = Annotated[float, Meta(gt=0, le=DAY)]
Off = Annotated[bool, Meta(extra_json_schema={"const": False}), Check(_check_off)]
RestartPolicyName = Literal["never", "on-failure", "always"]
Policy = Literal["read-only", "confirm", "open"]


class RestartSpec(Model, frozen=True, kw_only=True):
    """Whether and when a server that ended is started again."""

    policy: RestartPolicyName
    """When to restart: never, after a failure, or after every end."""
    delay: Annotated[float, Meta(ge=0.05, le=HOUR)] = 0.5
    """Seconds before the first new try; each further try waits twice as long."""
    max_delay: Annotated[float, Meta(ge=0.05, le=DAY)] = 30.0
    """The longest wait between two tries, in seconds."""
    max_failures: Annotated[int, Meta(ge=1, le=MOST_FAILURES)] = 5
    """Failures within `window` after which the server is given up."""
    window: Annotated[float, Meta(gt=0, le=30 * DAY)] = 300.0
    """Seconds for which a failure counts."""

    short: ClassVar[str | None] = "policy"
    shape: ClassVar[str] = '"never", "on-failure" or "always", or an object with "policy"'

    @override
    def settled(self) -> Self:
        if self.max_delay < self.delay:
            raise ValueError(f"maxDelay must be at least delay, which is {self.delay:g}")
        return self


class CommonKeys(Model, frozen=True, kw_only=True):
    """The keys that every kind of server has."""

    enabled: bool = True
    """Whether the server is started at all."""
    restart: RestartSpec = RestartSpec(policy="never")
    """What to do when the server ends: a policy, or an object with details."""
    start: Literal["eager", "lazy"] = "eager"
    """Start with the daemon, or at the first call; until then its tools are those it listed last."""
    idle_timeout: Annotated[float, Meta(gt=0, le=30 * DAY)] | None = None
    """Seconds without a call after which the server is stopped until the next one; null is never."""
    start_timeout: Timeout = 30.0
    """Seconds that starting, negotiating and listing may take together."""
    call_timeout: Timeout = 60.0
    """Seconds that a call may take; progress extends it."""
    max_call_time: Annotated[float, Meta(gt=0, le=7 * DAY)] = HOUR
    """Seconds that a call may take however much progress it reports."""
    health_interval: Annotated[float, Meta(ge=0.1, le=DAY)] | None = None
    """Seconds of silence after which it is examined whether the server still lives; null is never."""
    stop_grace: Annotated[float, Meta(ge=0, le=HOUR)] = 5.0
    """Seconds between asking the server to end and killing it."""
    max_concurrency: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Calls that the server gets at once; null is no limit."""
    max_queue: Annotated[int, Meta(ge=0, le=1_000_000)] = 256
    """Calls that may wait for the server; further ones are refused as busy."""
    tools: Patterns | None = None
    """Patterns on the server's own tool names, the last match wins; null is all of them."""
    prefix: Annotated[str, Meta(max_length=64), Check(_check_filled)] | None = None
    """What the public names of its tools start with; null is the server's name."""
    protocol: Literal["auto", "2025-11-25", "2026-07-28"] = "auto"
    """The protocol version to speak; auto negotiates it."""
    roots: Roots | None = None
    """What the server is told to work in: paths from the configuration file on, or file:/// addresses."""
    critical: bool = False
    """Whether the daemon counts as ready only when this server is connected."""
    exclusive: bool = False
    """Whether two runs cannot share what the server holds, so that a reload stops the old one first."""

    @override
    def settled(self) -> Self:
        if self.max_call_time < self.call_timeout:
            raise ValueError(f"maxCallTime must be at least callTimeout, which is {self.call_timeout:g}")
        return self


class ProcessKeys(CommonKeys, frozen=True, kw_only=True):
    """The keys of every server, and those of a child process that make sense for more than one."""

    cwd: Filled | None = None
    """The working directory, relative to the configuration file; null is the daemon's."""
    env_file: Filled | None = None
    """A file of NAME=value lines, relative to the configuration file; `env` wins over it."""
    inherit_env: tuple[VariableName, ...] = ()
    """Variables of the daemon's environment that the server gets beside the usual few."""
    framing: Literal["newline", "content-length"] = "newline"
    """How messages are told apart on the pipes."""


class StdioEntry(ProcessKeys, frozen=True, kw_only=True):
    """A server that runs as a child process and speaks on its standard streams."""

    type: Literal["stdio"] = "stdio"
    """How to reach the server; may be left out."""
    command: Filled
    """The program: a name on PATH, or a path relative to `cwd`."""
    args: tuple[String, ...] = ()
    """Its arguments; no shell reads them."""
    env: Mapping[VariableName, String] = {}
    """Variables for the server; their values are secrets."""

    concealed: ClassVar[frozenset[str]] = frozenset({"env"})


class HttpEntry(CommonKeys, frozen=True, kw_only=True):
    """A server that is reached by Streamable HTTP."""

    type: Literal["streamableHttp"] = "streamableHttp"
    """How to reach the server; may be left out."""
    url: Annotated[Filled, Check(_check_url)]
    """Where the server answers."""
    headers: Mapping[HeaderName, HeaderValue] = {}
    """Headers of every request; their values are secrets."""
    ca_file: Filled | None = None
    """Certificates to trust beside the system's, relative to the configuration file."""
    restart: RestartSpec = RestartSpec(policy="on-failure", max_failures=MOST_FAILURES)
    """What to do when the session ends: a policy, or an object with details; maxFailures is 10000 here."""

    concealed: ClassVar[frozenset[str]] = frozenset({"headers"})

    @override
    def settled(self) -> Self:
        """To try again costs no process, so a remote server is given up only by an entry that says when."""
        entry = super().settled()
        if "restart" not in self.written_fields or "max_failures" in self.restart.written_fields:
            return entry
        return entry.but(restart=self.restart.but(max_failures=MOST_FAILURES))


Entry = StdioEntry | HttpEntry


class Defaults(ProcessKeys, frozen=True, kw_only=True):
    """Keys for every server that does not set them itself; only those that are written count."""


class HttpSettings(Model, frozen=True, kw_only=True):
    """Where metrics and health are served."""

    host: Filled = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 9464
    """The port to listen on; 0 takes a free one."""


class LimitSettings(Model, frozen=True, kw_only=True):
    """What a client of the control socket may use up; past a limit it is answered or dropped."""

    request_bytes: Annotated[int, Meta(ge=1024, le=1024 * MIB)] = 4 * MIB
    """The longest request."""
    depth: Annotated[int, Meta(ge=10, le=400)] = 100
    """How deep a request may nest."""
    batch_requests: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """Requests in one batch."""
    clients: Annotated[int, Meta(ge=1, le=100_000)] = 256
    """Connections at once."""
    calls_per_client: Annotated[int, Meta(ge=1, le=100_000)] = 64
    """Calls of one client that have not ended; as many other requests may wait, and as many subscriptions."""
    unread_bytes: Annotated[int, Meta(ge=1024, le=1024 * MIB)] = 8 * MIB
    """Answers that a client may leave unread ..."""
    unread_seconds: Annotated[float, Meta(gt=0, le=HOUR)] = 10.0
    """... for this long, before it is dropped."""


class SupervisorSettings(Model, frozen=True, kw_only=True):
    """The daemon's own settings."""

    defaults: Defaults = Defaults()
    """Keys for every server that does not set them itself."""
    policy: Policy = "read-only"
    """Which tools are offered: those that do not say they write, all with confirmation, or all."""
    tool_separator: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,8}$")] = "_"
    """What stands between the prefix and a tool's own name."""
    max_result_bytes: Annotated[int, Meta(ge=1024, le=1024 * MIB)] = 5 * MIB
    """The size above which a result is cut."""
    max_line_bytes: Annotated[int, Meta(ge=64 * 1024, le=1024 * MIB)] = 64 * MIB
    """The longest message that a server may send."""
    limits: LimitSettings = LimitSettings()
    """What a client of the control socket may use up."""
    socket: Filled | None = None
    """The path of the control socket; null is the usual place."""
    http: HttpSettings | Off = HttpSettings()
    """Where metrics and health are served; false is nowhere."""
    agents: Mapping[Filled, Patterns] = {}
    """Named lists of patterns on public tool names."""
    agents_file: Filled | None = None
    """A Markdown file whose front matter names agents; null is AGENTS.md beside the configuration."""
