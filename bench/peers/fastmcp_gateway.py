"""`fastmcp_gateway.py CONFIG PORT`: a fastmcp proxy of several servers at its best.

Connected clients keep one process for each server; `fastmcp run CONFIG` would start one for every call. JSON
answers spare it the event streams. Runs in fastmcp's own environment, so it is loaded by name.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

fastmcp: Any = import_module("fastmcp")
proxies: Any = import_module("fastmcp.server")


async def serve(servers: dict[str, Any], port: int) -> None:
    gateway = fastmcp.FastMCP("gateway")
    clients = {name: fastmcp.Client({"mcpServers": {name: entry}}) for name, entry in servers.items()}
    async with AsyncExitStack() as stack:
        await asyncio.gather(*map(stack.enter_async_context, clients.values()))
        for name, client in clients.items():
            gateway.mount(proxies.create_proxy(client), namespace=name)
        await gateway.run_http_async(
            host="127.0.0.1", port=port, json_response=True, show_banner=False, log_level="warning"
        )


if __name__ == "__main__":
    config, number = sys.argv[1:]
    asyncio.run(serve(json.loads(Path(config).read_text())["mcpServers"], int(number)))
