"""The tools of the fake server: each is a function of the server, the request and its arguments.

A docstring is the tool's description; all tools answer, whichever are listed.
"""
# ruff: noqa: PTH109, PTH110, PTH115, PTH123, PTH208
# pathlib imports much, and a fake must start fast.

import json
import os
import signal
import time

from fake_wire import cut, discard, dump, members, write, write_lines

META = "io.modelcontextprotocol/"
BAD_DEFINITION = b'{"name":7,"inputSchema":"none"}'
NOISE = b"this is not JSON\n"
_TOGETHER = []


def echo(server, request, arguments):
    """Answers with its arguments as they were written, as text."""
    server.text(request, cut(request.text, "params", "arguments"))


def raw(server, request, arguments):
    """Answers with `result`, as it was written, for its result."""
    server.raw(request, cut(request.text, "params", "arguments", "result").encode())


def sleep(server, request, arguments):
    """Answers after `seconds`, never once it was cancelled; other requests are served meanwhile."""
    seconds = arguments.get("seconds", 1)
    server.later(seconds, request, lambda: server.text(request, f"slept {seconds} s"))


def hold(server, request, arguments):
    """Answers once `file` exists, never once it was cancelled; other requests are served meanwhile."""
    if os.path.exists(arguments["file"]):
        server.text(request, "held")
    else:
        server.later(0.005, request, lambda: hold(server, request, arguments))


def together(server, request, arguments):
    """Answers once `count` such calls have come, all in one write; `bytes` of text for each that says so."""
    _TOGETHER.append((request, "x" * arguments.get("bytes", 1)))
    if len(_TOGETHER) == arguments["count"]:
        send, lines = server.send, []
        server.send = lines.append
        for each, text in _TOGETHER:
            server.text(each, text)
        server.send = send
        _TOGETHER.clear()
        send(b"\n".join(lines))


def burn(server, request, arguments):
    """Keeps a processor busy, and everybody waiting, until `file` exists; then answers."""
    while not os.path.exists(arguments["file"]):
        pass
    server.text(request, "done")


def progress(server, request, arguments):
    """Reports `steps` times, `interval` seconds apart, then answers."""
    steps, interval = arguments.get("steps", 3), arguments.get("interval", 0)
    token = request.meta.get("progressToken")

    def report(step):
        if token is not None:
            details = {"progressToken": token, "progress": step, "total": steps}
            if "padding" in arguments:
                details["message"] = "x" * arguments["padding"]
            server.notify("notifications/progress", details)

    for step in range(1, steps + 1):
        server.later(step * interval, request, lambda step=step: report(step))
    server.later(steps * interval, request, lambda: server.text(request, f"{steps} steps"))


def crash(server, request, arguments):
    """Exits with `code`, or sends itself `signal` (a name or a number)."""
    if "signal" not in arguments:
        os._exit(arguments.get("code", 1))
    name = arguments["signal"]
    os.kill(os.getpid(), signal.Signals[name] if isinstance(name, str) else name)
    server.text(request, f"survived {name}")


def last_words(server, request, arguments):
    """Writes so many lines of `noise`, answers and exits; a process that got away holds its pipes."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    write(1, NOISE * arguments.get("noise", 1))
    server.text(request, "last")
    os._exit(3)


def exit_later(server, request, arguments):
    """Answers, and exits with `code` after `seconds`."""
    server.text(request, "soon")
    server.later(arguments.get("seconds", 0), request, lambda: os._exit(arguments.get("code", 0)))


def big(server, request, arguments):
    """Answers with a text of `bytes` bytes."""
    content = b'{"content":[{"type":"text","text":"%b"}]' % (b"x" * arguments.get("bytes", 1 << 20))
    server.raw(request, content + (b',"resultType":"complete"}' if request.modern else b"}"))


def cram(server, request, arguments):
    """Answers with a result of `before`, so many times (`count`) `unit`, and `after`."""
    before, unit, after = (arguments[name].encode() for name in ("before", "unit", "after"))
    server.raw(request, before + unit * arguments["count"] + after)


def counter(server, request, arguments):
    """Answers how many calls this process has received, this one included."""
    server.text(request, str(server.calls))


def error(server, request, arguments):
    """Answers with a result that is an error."""
    server.text(request, "this tool always fails", isError=True)


def rpc_error(server, request, arguments):
    """Answers with a JSON-RPC error that has `data`; `code` may be chosen."""
    server.fail(request, arguments.get("code", -32050), "cannot do this, as asked", {"hint": "none"})


def environ(server, request, arguments):
    """Answers the environment it was started with, as JSON."""
    # os.environ also holds what the interpreter added: LC_CTYPE.
    with open("/proc/self/environ", "rb") as file:
        pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if pair]
    server.text(request, json.dumps({name.decode(): value.decode() for name, _, value in pairs}))


def pid(server, request, arguments):
    """Answers its process id."""
    server.text(request, str(os.getpid()))


def cwd(server, request, arguments):
    """Answers its working directory."""
    server.text(request, os.getcwd())


def fds(server, request, arguments):
    """Answers its open descriptors and what they are, as JSON."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor that was open only to list the others
    server.text(request, json.dumps(found))


def change_tools(server, request, arguments):
    """Adds `add` tools (1) to the list, and tells whoever asked to be told."""
    server.extra_tools += arguments.get("add", 1)
    if server.initialized:
        server.notify("notifications/tools/list_changed", {})
    for subscription, granted in server.listening.items():
        if granted.get("toolsListChanged"):
            meta = {META + "subscriptionId": subscription}
            server.notify("notifications/tools/list_changed", {"_meta": meta})
    server.text(request, f"{server.extra_tools} more")


def end_listen(server, request, arguments):
    """Ends every subscription in good order."""
    for subscription in list(server.listening):
        result = {"resultType": "complete", "_meta": {META + "subscriptionId": subscription}}
        server.send(dump({"jsonrpc": "2.0", "id": subscription, "result": result}))
    server.listening.clear()
    server.text(request, "ended")


def ask(server, request, arguments):
    """Sends `method` (ping) with `params` to the client; answers with its answer, as JSON."""
    server.asked += 1
    question = {"jsonrpc": "2.0", "id": f"ask-{server.asked}", "method": arguments.get("method", "ping")}
    if "params" in arguments:
        question["params"] = arguments["params"]
    server.asking[question["id"]] = request
    server.send(dump(question))


def noise(server, request, arguments):
    """Writes `lines` lines that are not JSON, then answers."""
    write(1, NOISE * arguments.get("lines", 1))
    server.text(request, "that was noise")


def notify(server, request, arguments):
    """Sends `count` log notifications, then answers."""
    server.notify_often(arguments.get("count", 1))
    server.text(request, "told")


def stderr(server, request, arguments):
    """Writes `text`, or else `bytes` bytes, to stderr, then answers."""
    write(2, arguments.get("text", "").encode())
    write_lines(2, arguments.get("bytes", 0))
    server.text(request, "said")


def deaf(server, request, arguments):
    """Answers, and reads nothing ever again."""
    server.text(request, "now deaf")
    server.reading = False


def close_stdout(server, request, arguments):
    """Answers, closes stdout, and lives on."""
    server.text(request, "now mute")
    discard(1)


ALL = (
    *(
        echo,
        raw,
        sleep,
        progress,
        crash,
        last_words,
        exit_later,
        big,
        cram,
        counter,
        error,
        rpc_error,
        environ,
        pid,
        cwd,
        fds,
    ),
    *(change_tools, end_listen, ask, noise, notify, stderr, deaf, close_stdout, burn, hold, together),
)
TOOLS = {tool.__name__: tool for tool in ALL}
READ_ONLY = {"readOnlyHint": True}
ANNOTATIONS = {"crash": {"readOnlyHint": False, "destructiveHint": True}, "noise": None}


def find(name):
    """The tool of this name; a listed copy such as `echo_2` or `extra_1` echoes."""
    return echo if name.startswith(("echo_", "extra_", "endless_")) else TOOLS.get(name)


def define(name):
    definition = {"name": name, "description": find(name).__doc__, "inputSchema": {"type": "object"}}
    if annotations := ANNOTATIONS.get(name, READ_ONLY):
        definition["annotations"] = annotations
    return dump(definition)


def definitions(options, *, extra):
    """The JSON text of every definition to list."""
    if options.tools_json:
        with open(options.tools_json, encoding="utf-8") as file:
            # A line break between tokens would end the message.
            listed = [item.replace("\n", " ").encode() for _, item in members(file.read())]
    elif options.tools >= 0:
        listed = [
            define("echo" if number == 1 else f"echo_{number}") for number in range(1, options.tools + 1)
        ]
    else:
        listed = [define(name) for name in TOOLS]
    if options.bad_tool:
        listed.insert(1, BAD_DEFINITION)
    return listed + [define(f"extra_{number}") for number in range(1, extra + 1)]
