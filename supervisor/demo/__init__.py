"""A small MCP server to try the daemon with: `python -m supervisor.demo`.

It speaks both protocol eras over stdio and needs only the standard library. `tools` says what it can do,
`arguments` checks what a caller sent, `protocol` decides each answer, `server` moves lines and threads.
Nothing here imports the rest of the package but `errors`, and nothing changes the machine it runs on.
Records are named tuples: importing `dataclasses` would double the time it takes to start.
"""
