"""What users would take instead: each module starts one peer's gateway and calls it as its users would.

Peers are installed on demand into `.tools/peers` (see `bench.peers.install`) and never depended on. A module
has `command`, which starts the gateway, and `Contender`, which makes the calls over the gateway's fastest
interface that several programs can share.
"""

from collections.abc import Mapping

PEERS: Mapping[str, str] = {
    "mcporter": "bench.peers.mcporter",
    "mcp-hub": "bench.peers.mcp_hub",
    "mcp-proxy": "bench.peers.mcp_proxy",
    "fastmcp": "bench.peers.fastmcp",
    "mcpo": "bench.peers.mcpo",
}
"""By contender, the module."""
