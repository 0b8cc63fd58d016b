"""What peers share that are MCP servers themselves: Streamable HTTP, JSON answers, a session on each path."""

import itertools
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec

from bench.contender import Fleet
from bench.peers.http import request
from bench.peers.polling import once_ready
from bench.peers.web import WebPeer

_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_FIRST_ID = 100_000_000
_ACCEPT = "application/json, text/event-stream"


class StreamablePeer(WebPeer):
    """Sessions with a gateway; a subclass says where a server is and what its tools are called."""

    faults = (b'"error":', b'"isError":true')

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._sessions: dict[str, str] = {}
        self._ids = itertools.count(_FIRST_ID + 1)

    @abstractmethod
    def path(self, server: int) -> str:
        """Where that server is."""

    @abstractmethod
    def tool_name(self, server: int, tool: str) -> str:
        """What a tool of that server is called there."""

    async def open(self) -> None:
        await once_ready(self._greeted, dict.fromkeys(map(self.path, range(self._fleet.servers))))
        await super().open()

    async def _greeted(self, path: str) -> bool:
        """Whether there is a session at that path now."""
        answer = await self._pool.ask(self.fresh(self._request(path, "initialize", _INITIALIZE)))
        if answer is None or not (session := answer.header("mcp-session-id")):
            return False
        self._sessions[path] = f"Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: 2025-11-25\r\n"
        await self._pool.ask(self._post(path, {"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return True

    def _request(self, path: str, method: str, params: Mapping[str, Any]) -> bytes:
        return self._post(path, {"jsonrpc": "2.0", "id": _FIRST_ID, "method": method, "params": params})

    def fresh(self, content: bytes) -> bytes:
        """The request under an id that no other has; all ids have the same length."""
        return content.replace(b"%d" % _FIRST_ID, b"%d" % next(self._ids), 1)

    def _post(self, path: str, content: Mapping[str, Any]) -> bytes:
        more = self._sessions.get(path, "")
        return request("POST", path, msgspec.json.encode(content), accept=_ACCEPT, more=more)

    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
        params = {"name": self.tool_name(server, tool), "arguments": arguments}
        return self._request(self.path(server), "tools/call", params)

    def listing(self, server: int) -> bytes:
        return self._request(self.path(server), "tools/list", {})

    def tools_in(self, body: bytes) -> int:
        return len(msgspec.json.decode(body)["result"]["tools"])

    def text_in(self, body: bytes) -> str:
        return str(msgspec.json.decode(body)["result"]["content"][0]["text"])
