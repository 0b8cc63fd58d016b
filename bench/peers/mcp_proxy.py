"""mcp-proxy: an MCP server on a path of its own for each server behind it."""

from pathlib import Path

from bench.contender import Fleet
from bench.peers.streamable import StreamablePeer


def command(installed: Path, fleet: Fleet, config: Path) -> list[str]:
    options = ["--port", str(fleet.port), "--log-level", "WARNING", "--named-server-config", str(config)]
    return [str(installed / "mcp-proxy"), *options]


class Contender(StreamablePeer):
    def path(self, server: int) -> str:
        return f"/servers/s{server}/mcp"

    def tool_name(self, server: int, tool: str) -> str:  # noqa: ARG002 - the path names the server
        return tool
