"""What stands on every HTTP request to an MCP server, in either era.

The handshake era names the session and the version. The modern era has no session: each request names its
method, what it asks for, and the arguments that the tool's schema marks.
"""

from collections.abc import Callable, Mapping

import msgspec

from supervisor.core import eras, routing
from supervisor.errors import InvalidParams, Outcome

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"

_FORMS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class _Named(msgspec.Struct):
    """What a request asks for, in the words of its params."""

    name: str = ""
    uri: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Letterhead:
    """The headers of one conversation; `version` tells what was agreed on, or is empty until then."""

    def __init__(self, version: Callable[[], str]) -> None:
        self._version = version
        self.session_id = ""
        """Given by a server of the handshake era; empty when it keeps no sessions."""
        self.marks: Mapping[str, Mapping[routing.Path, str]] = {}
        """By tool, the arguments that go into headers too."""

    @property
    def is_modern(self) -> bool:
        return self._version() == eras.MODERN

    def keep_version(self) -> None:
        """Nothing more will be agreed on: ask nobody any more."""
        version = self._version()
        self._version = lambda: version

    def plain(self) -> dict[str, str]:
        """For what is no request."""
        return self._written(self._version())

    def request(self, method: str, params: bytes) -> dict[str, str]:
        """For a request.

        Raises:
            InvalidParams: what the schema of a tool wants in a header cannot be read.
        """
        match method:
            case "initialize":
                return dict(_FORMS)
            case "server/discover":
                return self._written(eras.MODERN) | self._routing(method, params)
            case _ if self.is_modern:
                return self.plain() | self._routing(method, params)
            case _:
                return self.plain()

    def _written(self, version: str) -> dict[str, str]:
        headers = dict(_FORMS)
        if version:
            headers[VERSION] = version
            if self.session_id and version != eras.MODERN:
                headers[SESSION] = self.session_id
        return headers

    def _routing(self, method: str, params: bytes) -> dict[str, str]:
        named = msgspec.json.decode(params, type=_Named)
        headers = {routing.METHOD: method}
        if name := named.name or named.uri:
            headers[routing.NAME] = routing.header_value(name)
        if method == "tools/call" and (marked := self.marks.get(named.name)):
            headers |= routing.param_headers(marked, _read(named.arguments))
        return headers


def _read(arguments: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError as exc:
        # Nobody else looks into them, so a number that no machine holds gets as far as here.
        sentence = f"its arguments cannot be put into headers, as its schema asks: {exc}"
        raise InvalidParams(sentence, outcome=Outcome.REJECTED) from exc
