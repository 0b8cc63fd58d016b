"""fastmcp: one MCP server that mounts a proxy of each server, under one path and with prefixed names."""

from pathlib import Path

from bench.contender import Fleet
from bench.peers.streamable import StreamablePeer

_GATEWAY = Path(__file__).with_name("fastmcp_gateway.py")


def command(installed: Path, fleet: Fleet, config: Path) -> list[str]:
    # -P: what lies beside the script has the name of what it imports.
    return [str(installed / "python"), "-P", str(_GATEWAY), str(config), str(fleet.port)]


class Contender(StreamablePeer):
    lists_all = True

    def path(self, server: int) -> str:  # noqa: ARG002 - all share one
        return "/mcp"

    def tool_name(self, server: int, tool: str) -> str:
        return f"s{server}_{tool}"
