"""A fake Streamable HTTP server for tests: well-behaved until an option asks for one fault.

Standard library only; start it with `python -I -S fake_http.py`. It listens on loopback, prints its port, and
ends itself after an hour, so that a broken test leaves nothing behind for good.

    --port N            listen there (else on a free port)
    --tls FILE          speak TLS with the key and the certificate in this file
    --era E             both | legacy (discover is unknown) | modern (initialize is refused)
    --answers FORM      json (pretty-printed within a session) | sse (default): how requests are answered
    --stateless         give no session ids
    --one-session       give everybody the same session
    --mute              has no stream of its own: GET is answered with 405
    --log FILE          append a JSON line per HTTP request and per executed call
    --fault F           what to do instead of answering, a method of `Faults`; its argument follows a colon
    --at METHOD         who meets the fault: a JSON-RPC method (default tools/call), GET, DELETE, or any
    --times N           only the first N of them

Tools: each is a method of `Tools` whose docstring says what it does.
"""
# ruff: noqa: PTH100, PTH110, PTH120, PTH123
# pathlib imports much, and a fake must start fast.

import asyncio
import json
import os
import ssl
import sys

# Isolated mode leaves the script's own directory out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_http_faults import Faults, Tools
from fake_http_request import Gone, Request, Session, note

LIFETIME = 3600
MODERN = "2026-07-28"
OPTIONS = {
    "port": "0",
    "tls": "",
    "era": "both",
    "answers": "sse",
    "log": "",
    "fault": "",
    "at": "tools/call",
}
OPTIONS |= {"times": "1000000000"}
FLAGS = {"stateless": False, "one-session": False, "mute": False}


class Server:
    def __init__(self, options):
        self.options = options
        self.sessions, self.anonymous = {}, Session()
        self.unknown_session = "404"
        self.listen, self.listener, self.idle = None, None, set()
        self.deaf_to_answers, self.dawdles_for = False, ""
        self.extra = 0
        self.faults, self.tools = Faults(self), Tools()
        self.left = int(options["times"])

    def log(self, **what):
        if self.options["log"]:
            with open(self.options["log"], "a") as file:
                file.write(json.dumps(what) + "\n")

    async def connected(self, reader, writer):
        try:
            while self.listener.is_serving():
                self.idle.add(writer)
                request = await self.read(reader, writer)
                self.idle.discard(writer)
                await self.handle(request)
        except (Gone, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.idle.discard(writer)
            writer.close()

    async def read(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(self, (reader, writer), method, path, headers, body)

    async def handle(self, request):
        message = json.loads(request.body) if request.body else {}
        kind = message.get("method", "answer") if request.method == "POST" else request.method
        self.log(http=request.method, path=request.path, rpc=kind, headers=request.headers)
        fault, _, argument = self.options["fault"].partition(":")
        if fault and self.options["at"] in (kind, "any") and self.left > 0:
            self.left -= 1
            await self.fail(request, kind, fault, argument)
        else:
            await self.serve(request)

    async def fail(self, request, kind, fault, argument):
        """Have the request meet its fault; that the client did not wait for the end of it is noted."""
        try:
            await getattr(self.faults, fault)(request, argument)
        except OSError:
            self.log(gave_up=kind)
            raise

    async def serve(self, request):
        given = request.headers.get("mcp-session-id")
        if given is not None and given not in self.sessions:
            await self.deny_session(request)
        elif request.method == "GET":
            await self.speak(request)
        elif request.method == "DELETE":
            self.sessions.pop(given, None)
            await request.reply(200)
        else:
            await self.post(request, json.loads(request.body))

    async def deny_session(self, request):
        """Say that the session is unknown, in one of the ways that servers have."""
        if self.unknown_session == "404":
            await request.reply(404, b"Session not found")
        elif self.unknown_session == "400":
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            await request.reply_json(400, {"jsonrpc": "2.0", "id": None, "error": error})
        else:
            number = json.loads(request.body or "{}").get("id")
            error = {"code": -32001, "message": "Session not found"}
            await request.reply_json(404, {"jsonrpc": "2.0", "id": number, "error": error})

    async def speak(self, request):
        """The stream on which we talk of our own accord; it also brings what was kept for a resumption."""
        kept = getattr(request.session, "kept", None)
        if self.options["mute"]:
            await request.reply(405)
        elif kept is Gone:
            raise Gone
        elif kept and "last-event-id" in request.headers:
            await self.call(request, kept)
        else:
            await request.event("", id="0")
            await self.pass_on(request)
            await request.end_stream()

    async def pass_on(self, request):
        while (message := await request.session.said.get()) is not None:
            if message is Gone:
                raise Gone
            await request.say(message)

    async def post(self, request, message):
        if "method" not in message and self.deaf_to_answers:
            await asyncio.sleep(LIFETIME)
        elif "method" not in message:
            request.session.answers[message["id"]].set_result(message.get("error") or message.get("result"))
            await request.reply(202)
        elif "id" not in message:
            await request.reply(202)
        else:
            name = message["method"].replace("/", "_")
            await getattr(self, f"on_{name}", self.on_unknown)(request, message)

    async def on_unknown(self, request, message):
        error = {"code": -32601, "message": "cannot find this method"}
        await request.reply_json(404, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def on_server_discover(self, request, message):
        if self.options["era"] == "legacy":
            await self.on_unknown(request, message)
        else:
            capabilities = {"tools": {"listChanged": True}}
            result = {
                "supportedVersions": [MODERN],
                "capabilities": capabilities,
                "serverInfo": {"name": "fake"},
            }
            await request.answer(message["id"], result=result)

    async def on_initialize(self, request, message):
        if self.options["era"] == "modern":
            await self.on_unknown(request, message)
            return
        while self.dawdles_for and not os.path.exists(self.dawdles_for):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)
        headers = {}
        if not self.options["stateless"]:
            identity = "session" if self.options["one-session"] else f"session-{os.urandom(4).hex()}"
            self.sessions.setdefault(identity, Session())
            headers = {"mcp_session_id": identity}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
        await request.answer(
            message["id"], headers=headers, result={**result, "serverInfo": {"name": "fake"}}
        )

    async def on_ping(self, request, message):
        await request.answer(message["id"], result={})

    async def on_subscriptions_listen(self, request, message):
        await request.say(note("subscriptions/acknowledged"))
        await self.pass_on(request)
        await request.answer(message["id"], result={})

    async def on_tools_list(self, request, message):
        names = [name for name in vars(Tools) if not name.startswith("_")]
        names += [f"extra{number}" for number in range(self.extra)]
        marked = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
        tools = [{"name": name, "inputSchema": marked} for name in names]
        tools.append({"name": "ill-marked", "inputSchema": {"type": "object", "x-mcp-header": "Nobody"}})
        tools.append({"name": 7})
        await request.answer(message["id"], result={"tools": tools})

    async def on_tools_call(self, request, message):
        await self.call(request, message)

    async def call(self, request, message):
        params = message["params"]
        self.log(ran=params["name"], arguments=params["arguments"])
        text = await getattr(self.tools, params["name"])(request, params["arguments"])
        await request.answer(message["id"], result={"content": [{"type": "text", "text": text}]})


async def main(options):
    server = Server(options)
    context = None
    if options["tls"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options["tls"])

    async def listen(port):
        server.listener = await asyncio.start_server(
            server.connected, "127.0.0.1", port, ssl=context, limit=1 << 27, backlog=1024
        )
        return server.listener.sockets[0].getsockname()[1]

    server.listen = listen
    print(await listen(int(options["port"])), flush=True)
    await asyncio.sleep(LIFETIME)


def read_options(arguments):
    options = {**OPTIONS, **FLAGS}
    words = iter(arguments)
    for word in words:
        name = word.removeprefix("--")
        options[name] = True if name in FLAGS else next(words)
    return options


if __name__ == "__main__":
    asyncio.run(main(read_options(sys.argv[1:])))
