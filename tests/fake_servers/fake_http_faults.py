"""What can be called on the fake HTTP server, and what a request can meet instead of an answer."""

import asyncio
import gzip
import json
import os

from fake_http_request import Gone, note

FOREVER = 3600


class Faults:
    """What a request can meet instead of an answer."""

    def __init__(self, server):
        self.server = server

    async def status(self, request, argument):
        """status:CODE[,HEADER=VALUE]"""
        code, _, header = argument.partition(",")
        name, _, value = header.partition("=")
        await request.reply(int(code), b"no", **({name.replace("-", "_"): value} if name else {}))

    async def huge_error(self, request, argument):
        """huge_error:CODE"""
        await request.reply(int(argument), b"x" * 1_000_000)

    async def rpc_error(self, request, argument):
        """rpc_error:STATUS,CODE"""
        status, _, code = argument.partition(",")
        error = {"code": int(code), "message": "so it is"}
        await request.reply_json(int(status), {"jsonrpc": "2.0", "id": None, "error": error})

    async def reflect(self, request, argument):
        """reflect:HEADER; who we are is what we were sent, and only the first list of tools is given."""
        message, sent = json.loads(request.body or "{}"), request.headers.get(argument, "")
        method, number = message.get("method"), message.get("id")
        if method == "server/discover":
            info = {"name": "fake", "sent": [{sent: sent}]}
            offered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
            await request.answer(number, result={**offered, "serverInfo": info})
        elif method == "tools/list" and self.server.extra:
            error = {"code": -32603, "message": f"who is {sent}?"}
            await request.reply_json(500, {"jsonrpc": "2.0", "id": number, "error": error})
        else:
            await self.server.serve(request)

    async def broken_error(self, request, argument):
        """An error under the id of the call, with a byte in it that is no text."""
        body = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-1,"data":"\xff"}}' % json.loads(request.body)["id"]
        await request.reply(400, body, content_type="application/json")

    async def after_the_fact(self, request, argument):
        """after_the_fact:STATUS,WORDS; the call is executed, and then answered with an error under its id."""
        status, _, words = argument.partition(",")
        message = json.loads(request.body)
        self.server.log(ran=message["params"].get("name"), arguments=message["params"].get("arguments"))
        error = {"code": -32050, "message": words}
        await request.reply_json(int(status), {"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def redirect(self, request, argument):
        """redirect:CODE,LOCATION; what arrives at /moved is answered."""
        code, _, location = argument.partition(",")
        if request.path == "/moved":
            await self.server.serve(request)
        else:
            await request.reply(int(code), location=location)

    async def slow_headers(self, request, argument):
        """One byte of the head at a time, for ever."""
        for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"x" * 100_000:
            request.writer.write(bytes([byte]))
            await request.writer.drain()
            await asyncio.sleep(0.05)

    async def slow_body(self, request, argument):
        """One byte of the body at a time, for ever."""
        request.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
        )
        for _ in range(100_000):
            request.writer.write(b" ")
            await request.writer.drain()
            await asyncio.sleep(0.05)

    async def silent(self, request, argument):
        """No answer, for as long as the client waits for one; then that is noted."""
        await request.reader.read()
        self.server.log(gave_up=json.loads(request.body or "{}").get("method", request.method))

    async def offers(self, request, argument):
        """offers:VERSION; a greeting of the modern form that names this version only."""
        greeting = {"supportedVersions": [argument], "capabilities": {}, "serverInfo": {"name": "fake"}}
        await request.answer(json.loads(request.body)["id"], result=greeting)

    async def hang_up(self, request, argument):
        raise Gone

    async def half_stream(self, request, argument):
        """Half an event, and no more."""
        await request.event("one whole event that is not JSON")
        await request.chunk(b'data: {"jsonrpc"')
        raise Gone

    async def end_early(self, request, argument):
        """A stream that ends as it should, but without the answer."""
        await request.event("{}")
        await request.end_stream()

    async def endless(self, request, argument):
        """Notifications for ever; endless:SECONDS between them, and with 0 as fast as they are taken."""
        while True:
            await asyncio.sleep(float(argument or 0.001))
            await request.say(note("message"))

    async def huge_event(self, request, argument):
        """huge_event:BYTES"""
        await request.event("")
        await request.chunk(b"data: ")
        for _ in range(int(argument) // 65536 + 1):
            await request.chunk(b"x" * 65536)
        await request.chunk(b"\n\n")

    async def huge_body(self, request, argument):
        """huge_body:BYTES"""
        await request.reply(200, b" " * int(argument), content_type="application/json")

    async def bomb(self, request, argument):
        """bomb:BYTES, unpacked"""
        packed = gzip.compress(b" " * int(argument))
        await request.reply(200, packed, content_type="application/json", content_encoding="gzip")

    async def packed(self, request, argument):
        """packed:ENCODING; what it says is true for gzip alone."""
        number = json.loads(request.body)["id"]
        text = json.dumps(
            {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "ok"}]}}
        )
        body = gzip.compress(text.encode())
        await request.reply(200, body, content_type="application/json", content_encoding=argument)

    async def packed_tail(self, request, argument):
        """The answer, packed, and then zeroes for ever."""
        number = json.loads(request.body)["id"]
        result = {"content": [{"type": "text", "text": "ok"}]}
        request.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
        await request.chunk(gzip.compress(text.encode()))
        while True:
            await request.chunk(bytes(65536))

    async def cookies(self, request, argument):
        """cookies:COUNT, of 1 KB each, with the answer."""
        jar = b"".join(b"set-cookie: c%d=%s\r\n" % (i, b"x" * 1000) for i in range(int(argument)))
        number = json.loads(request.body)["id"]
        result = {"content": [{"type": "text", "text": request.headers.get("cookie", "none")[:20]}]}
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + jar
        request.writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        await request.writer.drain()

    async def damaged(self, request, argument):
        await request.reply(200, b"no gzip", content_type="application/json", content_encoding="gzip")

    async def foreign_id(self, request, argument):
        """An answer to everybody else's request before the right one."""
        number = json.loads(request.body)["id"]
        for other in (number - 1, number + 1, str(number), None):
            await request.say({"jsonrpc": "2.0", "id": other, "result": {"content": []}})
        await self.server.serve(request)

    async def html(self, request, argument):
        await request.reply(200, b"<html>", content_type="text/html")

    async def no_content(self, request, argument):
        await request.reply(202)

    async def curious(self, request, argument):
        """curious:COUNT; ask so many things, take in no answer, then have one more tool and tell of it."""
        self.server.deaf_to_answers = True
        for number in range(int(argument)):
            await request.say({"jsonrpc": "2.0", "id": number, "method": "roots/list", "params": {}})
        self.server.extra += 1
        await request.say(note("tools/list_changed"))
        await asyncio.sleep(FOREVER)

    async def forget(self, request, argument):
        """All sessions are forgotten just before this request arrives; forget:HOW, see `deny_session`."""
        self.server.sessions.clear()
        self.server.unknown_session = argument or "404"
        await self.server.serve(request)

    async def forget_and_dawdle(self, request, argument):
        """forget_and_dawdle:FILE; as `forget`, and whoever comes back is greeted when that file is there."""
        self.server.dawdles_for = argument
        await self.forget(request, "404")

    async def forget_all(self, request, argument):
        """As `forget`, and whoever comes back is not greeted either."""
        self.server.options["era"] = "modern"
        await self.forget(request, "404")

    async def abandoned(self, request, argument):
        """The stream ends early, and whoever wants to resume it is refused, cut off, or finds nobody."""
        request.session.kept = Gone
        self.server.options["mute"] = argument == "refused"
        await request.say(note("message"), id="e1", retry=0)
        if argument == "dead":
            os._exit(1)
        raise Gone

    async def denied(self, request, argument):
        """The stream ends early, and whoever wants to resume it meets this `status`."""
        self.server.options |= {"fault": f"status:{argument}", "at": "GET"}
        self.server.left = 1000
        await request.say(note("message"), id="e1", retry=0)
        raise Gone

    async def resumable(self, request, argument):
        """The stream ends early but can be resumed by GET; resumable:MILLISECONDS to wait."""
        request.session.kept = json.loads(request.body)
        retry = {"retry": argument} if argument else {}
        await request.say(note("message"), id="e1", **retry)
        raise Gone


class Tools:
    """What can be called."""

    async def echo(self, request, arguments):
        return arguments.get("text", "")

    async def headers(self, request, arguments):
        """The headers of this request."""
        return json.dumps(request.headers)

    async def wait(self, request, arguments):
        await asyncio.sleep(arguments["seconds"])
        return "waited"

    async def wait_for(self, request, arguments):
        """Wait until a file is there."""
        while not os.path.exists(arguments["file"]):  # noqa: ASYNC110, ASYNC240, PTH110
            await asyncio.sleep(0.01)
        return "waited"

    async def shut(self, request, arguments):
        """Take no connections until a file is there, and go on with the requests that are under way."""
        server, port = request.server, request.server.listener.sockets[0].getsockname()[1]
        server.listener.close()
        for writer in list(server.idle):
            writer.close()
        server.reopening = asyncio.ensure_future(self._reopen(server, port, arguments["until"]))
        return "shut"

    async def _reopen(self, server, port, file):
        while not os.path.exists(file):  # noqa: ASYNC110, ASYNC240, PTH110
            await asyncio.sleep(0.01)
        await server.listen(port)

    async def steps(self, request, arguments):
        """Tell of progress so many times before the answer."""
        token = arguments["token"]
        for step in range(arguments["count"]):
            await request.say(note("progress", progressToken=token, progress=step))
        return "done"

    async def ask_back(self, request, arguments):
        """Ask the client something, once a file is there if one is named, and say what it answered."""
        if "after" in arguments:
            await self.wait_for(request, {"file": arguments["after"]})
        session = request.session
        session.asked += 1
        identity = f"back-{session.asked}"
        session.answers[identity] = asyncio.get_running_loop().create_future()
        await request.say({"jsonrpc": "2.0", "id": identity, "method": arguments["method"], "params": {}})
        return json.dumps(await session.answers[identity])

    async def change(self, request, arguments):
        """Have one tool more, and say so to everybody who listens."""
        server = request.server
        server.extra += 1
        for session in [*server.sessions.values(), server.anonymous]:
            session.said.put_nowait(
                {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}
            )
        return "changed"

    async def hang_up_stream(self, request, arguments):
        """End every stream that anybody listens to; properly, or by breaking it off."""
        server = request.server
        for session in [*server.sessions.values(), server.anonymous]:
            session.said.put_nowait(Gone if arguments.get("rudely") else None)
        return "ended"

    async def die(self, request, arguments):
        os._exit(1)
