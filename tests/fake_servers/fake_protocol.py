"""The fake server's side of MCP: reads, dispatches and answers; every fault of an answer is in `reply`."""

import json
import os
import select
import signal
import time

from fake_tools import META, NOISE, define, definitions, find
from fake_wire import discard, dump, write

HANDSHAKE_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
MODERN_VERSION = "2026-07-28"
IDENTITY = {"name": "fake", "version": "1"}
STAGES = {
    "server/discover": "discover",
    "initialize": "initialize",
    "tools/list": "list",
    "tools/call": "call",
}
READ_SIZE = 1 << 20
FOREIGN_ID = 987654321


class Request:
    """One JSON-RPC request, with its text as received."""

    def __init__(self, message, text, *, era):
        self.id, self.method, self.text = message["id"], message["method"], text
        self.params = message.get("params") or {}
        self.meta = self.params.get("_meta") or {}
        self.stage = STAGES.get(self.method, "")
        self.version = self.meta.get(META + "protocolVersion") if era in ("both", "modern") else None
        self.modern = self.version is not None or era == "modern"


class Server:
    """One conversation over stdin and stdout."""

    def __init__(self, options):
        self.options = options
        self.buffer = bytearray()
        self.reading = self.writing = self.first = True
        self.initialized = self.settled = False
        self.calls = self.extra_tools = self.asked = 0
        self.timers = []  # (deadline, request id, action), by deadline
        self.asking = {}  # id of our question -> the call that waits for its answer
        self.listening = {}  # id of a listen request -> what it was granted

    def run(self):
        while True:
            timeout = max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else None
            ready = select.select([0] if self.reading else [], [], [], timeout)[0]
            while self.timers and self.timers[0][0] <= time.monotonic():
                self.timers.pop(0)[2]()
            if ready:
                self.receive(os.read(0, READ_SIZE))

    def receive(self, chunk):
        if not chunk:
            self.log({"end": "stdin"})
            if not self.options.ignore_eof:
                os._exit(self.options.exit_code)
            self.reading = False
        scanned = len(self.buffer)
        self.buffer += chunk
        while self.reading and (text := self.take(scanned)) is not None:
            scanned = 0
            if text.strip():
                self.handle(text)

    def take(self, scanned):
        """Take one message off the buffer, in whose first `scanned` bytes no line ends."""
        start, end = 0, self.buffer.find(b"\n", scanned) + 1
        if self.options.framing == "content-length":
            start = self.buffer.find(b"\r\n\r\n") + 4
            length = self.buffer[:start].lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            end = start + int(length or 0) if start > 3 else 0
        if not end or len(self.buffer) < end:
            return None
        text = self.buffer[start:end].decode("utf-8", "replace")
        del self.buffer[:end]
        return text

    def handle(self, text):
        try:
            message = json.loads(text)
        except ValueError:
            self.log({"unreadable": text})
            error = {"code": -32700, "message": "cannot parse this"}
            self.send(dump({"jsonrpc": "2.0", "id": None, "error": error}))
            return
        self.log({"received": message})
        if self.options.silent:
            return
        if "method" not in message:
            if call := self.asking.pop(message.get("id"), None):
                self.text(call, json.dumps(message.get("result", message.get("error"))))
        elif "id" not in message:
            self.notice(message["method"], message.get("params") or {})
        else:
            self.serve(Request(message, text, era=self.options.era))

    def notice(self, method, params):
        if method == "notifications/initialized":
            self.initialized = True
            self.settle()
        elif method == "notifications/cancelled":
            cancelled = params.get("requestId")
            self.timers = [timer for timer in self.timers if timer[1] != cancelled]
            self.listening.pop(cancelled, None)

    def serve(self, request):
        era = self.options.era
        if era == "rmcp" and self.first and request.method != "initialize":
            os._exit(2)
        self.first = False
        if request.stage and request.stage == self.options.exit_at:
            os._exit(self.options.exit_code)
        if era == "mute" and request.method == "server/discover":
            return
        if refusal := self.refusal(request):
            self.fail(request, *refusal)
        else:
            METHODS[request.method](self, request)

    def refusal(self, request):
        """Why this request gets an error, as (code, message, data), or None."""
        era, method = self.options.era, request.method
        wanted = request.version
        if era == "modern" and method == "initialize":
            wanted = request.params.get("protocolVersion")
        if wanted not in (None, MODERN_VERSION) or (era == "modern" and method == "initialize"):
            supported = [MODERN_VERSION] if era == "modern" else [MODERN_VERSION, *HANDSHAKE_VERSIONS]
            return -32022, f"cannot speak {wanted}", {"supported": supported, "requested": wanted}
        foreign = {"both": (), "modern": ("ping",)}.get(era, ("server/discover", "subscriptions/listen"))
        if method not in METHODS or method in foreign:
            return -32601, f"cannot find method {method!r}", None
        return self.strict_refusal(request) if self.options.strict else None

    def strict_refusal(self, request):
        if request.method in ("initialize", "ping"):
            return None
        if request.version is None and (request.modern or not self.initialized):
            return -32600, "cannot serve this before the handshake, or without a version in _meta", None
        if request.version is not None and META + "clientCapabilities" not in request.meta:
            return -32602, "cannot serve this without clientCapabilities in _meta", None
        return None

    def settle(self):
        """Do what was asked for after the handshake."""
        if self.settled:
            return
        self.settled = True
        self.notify_often(self.options.notify_flood)
        if self.options.close_stdout:
            discard(1)
        if self.options.deaf:
            self.reading = False

    def later(self, delay, request, action):
        self.timers.append((time.monotonic() + delay, request.id, action))
        self.timers.sort(key=lambda timer: timer[0])

    def send(self, message):
        if not self.writing:
            return
        if self.options.framing == "content-length":
            write(1, b"Content-Length: %d\r\n\r\n%b" % (len(message), message))
        else:
            write(1, message + b"\n")

    def notify(self, method, params):
        self.send(dump({"jsonrpc": "2.0", "method": method, "params": params}))

    def notify_often(self, count):
        for number in range(count):
            self.notify("notifications/message", {"level": "info", "data": number})

    def result(self, request, fields):
        self.raw(request, dump(stamp(request, fields)))

    def text(self, request, text, **fields):
        self.result(request, {"content": [{"type": "text", "text": text}], **fields})

    def fail(self, request, code, message, details=None):
        error = {"code": code, "message": message} | ({} if details is None else {"data": details})
        self.reply(request, b'"error":' + dump(error))

    def raw(self, request, result):
        self.reply(request, b'"result":' + result)

    def reply(self, request, body):
        options = self.options
        message = answer(request.id, body)
        if options.garbage:
            write(1, NOISE)
        if options.wrong_id and request.stage == "call":
            self.send(answer(FOREIGN_ID, body))
        if request.stage and request.stage == options.fault_at:
            message = self.spoil(message)
        for _ in range(2 if options.duplicate_answer else 1):
            self.send(message)

    def spoil(self, message):
        options = self.options
        if options.half_line:
            write(1, message[: len(message) // 2])
            os._exit(options.exit_code)
        if options.endless_line:
            write(1, message[:-1].ljust(options.endless_line, b" "))
            self.writing = False
        if options.bad_utf8:
            message = message.replace(b":{", b':{"broken":"\xff\xfe",', 1)
        return message

    def log(self, record):
        # Opened anew each time, so that the tool `fds` shows only what was inherited.
        if self.options.log:
            descriptor = os.open(self.options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            write(descriptor, dump(record) + b"\n")
            os.close(descriptor)

    def on_signal(self, number, _frame):
        self.log({"signal": signal.Signals(number).name})
        if number == signal.SIGTERM and self.options.ignore_sigterm:
            return
        if number == signal.SIGTERM and self.options.leader_exits_on_term:
            os._exit(self.options.exit_code)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def answer(identifier, body):
    return b'{"jsonrpc":"2.0","id":%b,%b}' % (dump(identifier), body)


def stamp(request, fields, *, cached=False):
    """Add what a modern result must say of itself."""
    if not request.modern:
        return fields
    freshness = {"ttlMs": 0, "cacheScope": "private"} if cached else {}
    return {**fields, **freshness, "resultType": "complete", "_meta": {META + "serverInfo": IDENTITY}}


def initialize(server, request):
    offered = request.params.get("protocolVersion")
    version = server.options.version or (offered if offered in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0])
    capabilities = {"tools": {"listChanged": True}}
    fields = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": IDENTITY}
    server.raw(request, dump(fields))


def discover(server, request):
    fields = {"supportedVersions": [MODERN_VERSION], "capabilities": {"tools": {"listChanged": True}}}
    server.raw(request, dump(stamp(request, fields, cached=True)))
    server.settle()


def ping(server, request):
    server.result(request, {})


def listen(server, request):
    """Acknowledge and remember; the answer comes only when the subscription ends."""
    granted = {
        kind: True for kind, wanted in request.params.get("notifications", {}).items() if wanted is True
    }
    server.listening[request.id] = granted
    meta = {META + "subscriptionId": request.id}
    server.notify("notifications/subscriptions/acknowledged", {"notifications": granted, "_meta": meta})


def list_tools(server, request):
    options, cursor = server.options, request.params.get("cursor")
    listed, fields = definitions(options, extra=server.extra_tools), {}
    if options.same_cursor:
        fields = {"nextCursor": "again"}
    elif cursor is not None and not cursor.isdecimal():
        server.fail(request, -32602, f"cannot find page {cursor!r}")
        return
    elif options.endless_pages:
        page = int(cursor or 0)
        listed, fields = [define(f"endless_{page}")] if page else listed, {"nextCursor": str(page + 1)}
    elif options.page_size:
        start, end = int(cursor or 0), int(cursor or 0) + options.page_size
        fields = {"nextCursor": str(end)} if end < len(listed) else {}
        listed = listed[start:end]
    rest = dump(stamp(request, fields, cached=True))[1:]
    separator = b"," if rest != b"}" else b""
    server.raw(request, b'{"tools":[%b]%b%b' % (b",".join(listed), separator, rest))


def call_tool(server, request):
    server.calls += 1
    tool = find(request.params.get("name", ""))
    if tool is None:
        server.fail(request, -32602, f"cannot find tool {request.params.get('name')!r}")
    else:
        tool(server, request, request.params.get("arguments") or {})


METHODS = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": ping,
    "subscriptions/listen": listen,
    "tools/list": list_tools,
    "tools/call": call_tool,
}
