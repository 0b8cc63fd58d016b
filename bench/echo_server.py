"""The server under every contender: as little as an MCP server can be, so that it is never the bottleneck.

It reads only what the benchmark's own callers write (compact JSON, integer ids) and finds its way by byte
search. It speaks both protocol eras. Run it with `-I -S`: it imports nothing that Python has not loaded yet,
but for `signal` with `--stubborn`.
"""

import os
import sys

_READ = 1 << 18
_EMPTY = b""
_HEAD = b'{"jsonrpc":"2.0","id":'
_RESULT = _HEAD + b'%b,"result":{"resultType":"complete",%b}}\n'
_TEXT = b'"content":[{"type":"text","text":"%b"}],"isError":false'
_IDENTITY = b'"serverInfo":{"name":"echo","version":"1"},"capabilities":{"tools":{}}'
_CACHE = b'"ttlMs":0,"cacheScope":"private"'
_TOOL = (
    b'{"name":"%b","title":"A tool of the benchmark","description":"%b",'
    b'"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"What to say back"},'
    b'"bytes":{"type":"integer","minimum":0}},"additionalProperties":false},'
    b'"annotations":{"readOnlyHint":true}}'
)
_DESCRIPTION = b"Says back what it was told, in as few steps as possible, whoever asks and however often."
_NAMES = (b"echo", b"big", b"hang", b"pid")


def value_after(line: bytes, key: bytes) -> bytes:
    """The string or number that follows `key`; it holds no escapes."""
    start = line.find(key)
    if start < 0:
        return _EMPTY
    start += len(key)
    if line[start : start + 1] == b'"':
        return line[start + 1 : line.index(b'"', start + 1)]
    end = start
    while line[end] in b"0123456789":
        end += 1
    return line[start:end]


class EchoServer:
    """Answers for one line at a time."""

    def __init__(self, tools: int) -> None:
        fillers = [b"tool_%04d" % number for number in range(len(_NAMES), tools)]
        self._listing = b",".join([_TOOL % (name, _DESCRIPTION) for name in (*_NAMES, *fillers)])
        self._big: dict[bytes, bytes] = {}

    def answer(self, line: bytes) -> bytes:
        """The answer to `line`, with its newline; empty when it gets none."""
        identity = value_after(line, b'"id":')
        if not identity:
            return _EMPTY
        if b'"method":"tools/call"' in line:
            return self._call(identity, line)
        if b'"method":"tools/list"' in line:
            return _RESULT % (identity, b'"tools":[%b],%b' % (self._listing, _CACHE))
        if b'"method":"server/discover"' in line:
            return _RESULT % (identity, b'"supportedVersions":["2026-07-28"],%b,%b' % (_IDENTITY, _CACHE))
        if b'"method":"initialize"' in line:
            version = value_after(line, b'"protocolVersion":')
            return _RESULT % (identity, b'"protocolVersion":"%b",%b' % (version, _IDENTITY))
        return b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"no such method"}}\n' % identity

    def _call(self, identity: bytes, line: bytes) -> bytes:
        if b'"name":"big"' in line:
            return self._big_answer(identity, value_after(line, b'"bytes":'))
        if b'"name":"hang"' in line:
            return _EMPTY
        if b'"name":"pid"' in line:
            return _RESULT % (identity, _TEXT % str(os.getpid()).encode())
        return _RESULT % (identity, _TEXT % value_after(line, b'"text":'))

    def _big_answer(self, identity: bytes, size: bytes) -> bytes:
        if size not in self._big:
            self._big[size] = (_RESULT % (b"", _TEXT % (b"x" * int(size)))).removeprefix(_HEAD)
        return b"".join((_HEAD, identity, self._big[size]))


def write_all(content: bytes) -> None:
    """Write to standard output, however many turns the pipe takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(1, view) :]


def serve(server: EchoServer) -> None:
    """Answer until standard input ends; what one read brought is answered with one write."""
    rest = _EMPTY
    while chunk := os.read(0, _READ):
        *lines, rest = (rest + chunk).split(b"\n")
        answers = _EMPTY.join(map(server.answer, lines))
        if answers:
            write_all(answers)


def main() -> None:
    """`echo_server.py [--stubborn] [--mark=TEXT] TOOLS`.

    A stubborn one outlives SIGTERM and the end of its input; a mark only makes it findable.
    """
    *options, tools = sys.argv[1:]
    if "--stubborn" not in options:
        serve(EchoServer(int(tools)))
        return
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(EchoServer(int(tools)))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
