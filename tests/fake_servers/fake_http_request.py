"""One HTTP request to the fake server, and every way to answer it."""

import asyncio
import json

REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class Gone(Exception):
    """The connection is to be closed without another word."""


def note(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


class Session:
    def __init__(self):
        self.said = asyncio.Queue()
        self.answers = {}
        self.asked = 0


class Request:
    def __init__(self, server, connection, method, path, headers, body):
        self.server, self.method, self.path = server, method, path
        self.reader, self.writer = connection
        self.headers, self.body = headers, body
        self.streaming = False
        self.session = server.sessions.get(headers.get("mcp-session-id"), server.anonymous)

    async def reply(self, status, body=b"", **headers):
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Whatever')}", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def reply_json(self, status, message, **headers):
        indent = 1 if "mcp-session-id" in self.headers else None
        await self.reply(
            status, json.dumps(message, indent=indent).encode(), content_type="application/json", **headers
        )

    async def event(self, text, **fields):
        """Send one event; the first opens the stream."""
        if not self.streaming:
            self.streaming = True
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            self.writer.write(head.encode())
        lines = [f"{name}: {value}" for name, value in fields.items()] + [f"data: {text}", "", ""]
        await self.chunk("\n".join(lines).encode())

    async def say(self, message, **fields):
        await self.event(json.dumps(message), **fields)

    async def chunk(self, raw):
        self.writer.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        await self.writer.drain()

    async def end_stream(self):
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def answer(self, number, headers=None, **members):
        message = {"jsonrpc": "2.0", "id": number, **members}
        if self.streaming or (self.server.options["answers"] == "sse" and not headers):
            await self.say(message)
            await self.end_stream()
        else:
            await self.reply_json(200, message, **headers or {})
