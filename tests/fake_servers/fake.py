"""A fake MCP server for tests: well-behaved until an option asks for one fault.

Standard library only, one thread, one write per message; start it with `python -I -S fake.py`.
It kills itself after an hour, so that a broken test leaves nothing behind for good.

Protocol
    --era E                both | legacy (discover is unknown) | modern (initialize is refused)
                           | rmcp (exits 2 unless initialize comes first) | mute (ignores discover)
    --version V            the version answered to initialize (else the client's own, if known)
    --framing F            newline | content-length
    --strict               refuse requests before the handshake, or without the modern `_meta`
Tools
    --tools N              list N tools that echo (else all of those below)
    --tools-json FILE      list the definitions of this JSON array as written, read at each list
    --page-size K          K definitions per page
    --endless-pages        every page names a next one; --same-cursor: always by the same cursor
    --bad-tool             one malformed definition among the good ones
Answers
    --silent               read everything, answer nothing
    --garbage              a line that is not JSON before each answer
    --wrong-id             an answer to nobody's request before each answer to a call
    --duplicate-answer     every answer twice
    --bad-utf8             an answer that is not UTF-8, at the stage --fault-at
    --half-line            half an answer, then exit, at the stage --fault-at
    --endless-line BYTES   an answer of so many bytes that never ends its line, at the stage --fault-at
    --fault-at STAGE       discover | initialize | list | call (default)
After the handshake (`initialized`, or the answer to discover)
    --deaf                 read nothing more
    --close-stdout         close stdout and live on
    --notify-flood N       send N log notifications
Life
    --exit-at STAGE        exit instead of answering: spawn | discover | initialize | list | call
    --exit-code N          the code of --exit-at, --half-line, --leader-exits-on-term and end of input
    --slow-start SECONDS   read nothing for so long; --hold-start FILE: until there is such a file
    --ignore-eof           live on when stdin closes
    --ignore-sigterm       live on after SIGTERM
    --leader-exits-on-term exit after SIGTERM, instead of dying from it
    --echo                 behave as cat
    --stderr TEXT          say this at start; --stderr-flood BYTES: say so much
    --grandchild KIND      start one: group (holds stdout) | setsid (own session) | double-fork (orphaned too)
    --grandchild-pidfile FILE, --grandchild-ignores-term
    --log FILE             append a JSON line per start, message, signal and end of input
Each tool is a function in fake_tools.py whose docstring says what it does; all answer, listed or not.
"""
# ruff: noqa: PTH100, PTH104, PTH110, PTH120, PTH123
# pathlib imports much, and a fake must start fast.

import os
import signal
import sys
import time

# Isolated mode leaves the script's own directory out; a module there is compiled once, a script each time.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_protocol import Server
from fake_wire import discard, write, write_lines

LIFETIME = 3600
CHOICES = {
    "era": ("both", "legacy", "modern", "rmcp", "mute"),
    "framing": ("newline", "content-length"),
    "fault_at": ("call", "discover", "initialize", "list"),
    "exit_at": ("", "spawn", "discover", "initialize", "list", "call"),
    "grandchild": ("", "group", "setsid", "double-fork"),
}
FLAGS = (
    *("strict", "endless_pages", "same_cursor", "bad_tool", "silent", "garbage", "wrong_id"),
    *("duplicate_answer", "bad_utf8", "half_line", "deaf", "close_stdout", "echo"),
    *("ignore_eof", "ignore_sigterm", "leader_exits_on_term", "grandchild_ignores_term"),
)
COUNTS = ("page_size", "endless_line", "notify_flood", "exit_code", "stderr_flood")
TEXTS = ("version", "tools_json", "stderr", "grandchild_pidfile", "log", "hold_start")
DEFAULTS = {
    **{name: choices[0] for name, choices in CHOICES.items()},
    **dict.fromkeys(FLAGS, False),
    **dict.fromkeys(COUNTS, 0),
    **dict.fromkeys(TEXTS, ""),
    "tools": -1,
    "slow_start": 0.0,
}


class Options:
    """The command line; the type of an option's default decides how its value is read."""

    def __init__(self, arguments):
        self.__dict__.update(DEFAULTS)
        words = iter(arguments)
        for word in words:
            name = word.removeprefix("--").replace("-", "_")
            if not word.startswith("--") or name not in DEFAULTS:
                sys.exit(f"cannot understand {word!r}: see the top of {__file__} for the options")
            default = DEFAULTS[name]
            value = True if default is False else type(default)(next(words, default))
            if value not in CHOICES.get(name, (value,)):
                sys.exit(f"cannot use {value!r} for {word}: choose one of {', '.join(CHOICES[name])}")
            setattr(self, name, value)


def start_grandchild(options):
    """Start it, and return once it lives as asked and its pid is on file."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.close(readable)
        live_as_grandchild(options, writable)
    os.close(writable)
    os.read(readable, 1)
    os.close(readable)
    if options.grandchild == "double-fork":
        os.waitpid(child, 0)


def live_as_grandchild(options, writable):
    if options.grandchild != "group":
        os.setsid()
    if options.grandchild == "double-fork" and os.fork():
        os._exit(0)
    discard(*((0,) if options.grandchild == "group" else (0, 1, 2)))
    if options.grandchild_ignores_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(LIFETIME)
    if options.grandchild_pidfile:
        unfinished = options.grandchild_pidfile + ".new"
        with open(unfinished, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        os.rename(unfinished, options.grandchild_pidfile)
    os.close(writable)
    while True:
        signal.pause()


def copy_input():
    while chunk := os.read(0, 1 << 20):
        write(1, chunk)


def main():
    options = Options(sys.argv[1:])
    signal.alarm(LIFETIME)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if options.grandchild:
        start_grandchild(options)
    server = Server(options)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, server.on_signal)
    server.log({"started": os.getpid()})
    if options.stderr:
        write(2, options.stderr.encode() + b"\n")
    write_lines(2, options.stderr_flood)
    if options.exit_at == "spawn":
        sys.exit(options.exit_code)
    time.sleep(options.slow_start)
    while options.hold_start and not os.path.exists(options.hold_start):
        time.sleep(0.005)
    if options.echo:
        copy_input()
    else:
        server.run()


if __name__ == "__main__":
    main()
