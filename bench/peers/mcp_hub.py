"""mcp-hub: a REST interface to all servers at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.contender import Fleet
from bench.peers.http import request
from bench.peers.polling import noticed
from bench.peers.web import WebPeer


def command(installed: Path, fleet: Fleet, config: Path) -> list[str]:
    return [str(installed / "mcp-hub"), "--port", str(fleet.port), "--config", str(config)]


class Contender(WebPeer):
    faults = (b'"isError":true',)

    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
        wanted = {"server_name": f"s{server}", "tool": tool, "arguments": arguments}
        return request("POST", "/api/servers/tools", msgspec.json.encode(wanted))

    def listing(self, server: int) -> bytes:
        return request("POST", "/api/servers/info", msgspec.json.encode({"server_name": f"s{server}"}))

    async def noticed(self, server: int, pid: int) -> int:
        return await noticed(lambda: self._connected(server), pid)

    async def _connected(self, server: int) -> bool:
        answer = await self._pool.ask(self.listing(server))
        return answer is not None and msgspec.json.decode(answer.body)["server"]["status"] == "connected"

    def tools_in(self, body: bytes) -> int:
        return len(msgspec.json.decode(body)["server"]["capabilities"]["tools"])

    def text_in(self, body: bytes) -> str:
        return str(msgspec.json.decode(body)["result"]["content"][0]["text"])
