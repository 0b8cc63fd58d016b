"""`python -m supervisor` is `mcp-supervisor`."""

from supervisor.cli import entry

entry()
