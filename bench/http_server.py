"""`python -m bench.http_server COUNT TOOLS`: MCP servers over Streamable HTTP, each on a port of its own.

Plain Python without an SDK. It prints the ports on one line, then serves until its standard input ends.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench.echo_server import EchoServer


class Handler(BaseHTTPRequestHandler):
    """One connection; every answer is one JSON document."""

    protocol_version = "HTTP/1.1"
    echo: EchoServer

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        answer = self.echo.answer(json.loads(self.rfile.read(length)))
        if answer is None:
            self._reply(202, b"")
        else:
            self._reply(200, json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._reply(405, b"")

    def do_DELETE(self) -> None:
        self._reply(200, b"")

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    count, tools = map(int, sys.argv[1:])
    Handler.echo = EchoServer(tools)
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(count)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*(server.server_port for server in servers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
