"""One daemon that owns all the MCP servers of a machine."""

__version__ = "0.1.0"
