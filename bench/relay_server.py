"""A relay of bytes between one client and one server: about what any gateway in Python costs at least.

It blocks, reads no JSON, keeps no books, and can have one call under way.
Usage: `relay_server.py SOCKET COMMAND…`.
"""

import os
import socket
import subprocess
import sys

_CHUNK = 1 << 16
"""Bytes read at a time: memory for four times as many comes from the kernel and goes back at every read."""


def serve(path: str, command: list[str]) -> None:
    """Hand what the one client writes to the server, and its answer back, until the client leaves."""
    with (
        socket.socket(socket.AF_UNIX) as listener,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        to_server, from_server = server.stdin.fileno(), server.stdout.fileno()
        listener.bind(path)
        listener.listen()
        client, _ = listener.accept()
        while request := client.recv(_CHUNK):
            os.write(to_server, request)
            while not (part := os.read(from_server, _CHUNK)).endswith(b"\n"):
                client.sendall(part)
            client.sendall(part)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
