"""A server on the official Python SDK: `.tools/python/bin/python sdk_server.py JOURNAL [PORT]`; else stdio.

`note` writes its `mark` into the journal before it does anything else, so what a server was given can be
compared with what a caller was told.
"""
# mypy: disable-error-code="import-not-found,untyped-decorator"

import os
import sys

import anyio
from mcp.server import MCPServer

server = MCPServer("sdk")


@server.tool()
async def note(mark: str, seconds: float) -> str:
    """Write the mark down, and answer with it after so many seconds."""
    journal = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{mark}\n".encode())
    os.close(journal)
    await anyio.sleep(seconds)
    return mark


@server.tool()
async def echo(message: str) -> str:
    """Answer with the message."""
    return f"Echo: {message}"


if len(sys.argv) > 2:
    server.run("streamable-http", port=int(sys.argv[2]))
else:
    server.run("stdio")
