"""Cases of what must not be told, followed, sent or answered, in the words of the kit."""

import ctypes
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from supervisor.selftest.case import BAD, INNOCENTS, Answer, Case, Scene, Step
from supervisor.selftest.lab import OWN, PATIENCE
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import (
    await_state,
    call,
    grown_at_most,
    hit,
    note_memory,
    outcomes,
    reason,
    said,
    state,
)
from tests.e2e.support import Client, fake
from tests.kit.http_rows import HUGE, TOO_LONG, behind_http, faulty_once, heard

MEBI = 1 << 20
SECRET = "canary-81c4"
SCHEMA = "schema.json"
LIBC, IN_OPEN, MANY_EVENTS = ctypes.CDLL(None), 0x20, 4096
LOOPBACK, LISTENS = "0100007F", "0A"
"""As the kernel writes them."""


def defined(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "old", "inputSchema": {"type": "object"}, **more}


def listing(scene: Scene, *tools: dict[str, Any]) -> None:
    """Have the bad server list these tools; it is configured from now on."""
    listed = scene.lab.directory / "tools.json"
    listed.write_text(json.dumps(tools), encoding="utf-8")
    scene.lab.reload({**INNOCENTS, BAD: fake("--tools-json", listed)})


def change_a_description(scene: Scene) -> None:
    """Hear of the tools, change one, and hear what is told of that."""
    echo, change = defined("echo"), defined("change_tools")
    with Client(scene.lab.socket) as listener:
        listener.result("events/subscribe", kinds=["catalog"])
        listing(scene, echo, change)
        while f"{BAD}_echo" not in listener.receive()["params"]["changed"]:
            pass
        listed = scene.lab.directory / "tools.json"
        listed.write_text(json.dumps([{**echo, "description": "new"}, change]), encoding="utf-8")
        call("change_tools", add=0)(scene)
        scene.answers.append(Answer("told", json.dumps(listener.receive()["params"]["changed"])))


def new_description_listed(scene: Scene) -> str | None:
    found = {tool["name"]: tool["description"] for tool in scene.lab.client.tools()}
    return None if found[f"{BAD}_echo"] == "new" else f"the tools are {found}"


def refer_elsewhere(scene: Scene) -> None:
    """List a tool whose schemas are said to be in a file and on a host, and call it."""
    listener = scene.closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    listener.setblocking(False)
    (scene.lab.directory / SCHEMA).write_text("{}", encoding="utf-8")
    opened = openings(scene, scene.lab.directory / SCHEMA)
    there = {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"}
    listing(scene, defined("echo", inputSchema={"type": "object", "x": in_a_file(scene)}, outputSchema=there))
    call("echo", text="hello")(scene)
    asked = happens(lambda: scene.closing.enter_context(listener.accept()[0]))
    read = happens(lambda: os.read(opened, MANY_EVENTS))
    scene.answers += [Answer("followed" if each else "not followed", "") for each in (asked, read)]


def openings(scene: Scene, file: Path) -> int:
    """Where the kernel says that somebody opens the file."""
    descriptor: int = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    scene.closing.callback(os.close, descriptor)
    assert LIBC.inotify_add_watch(descriptor, os.fsencode(file), IN_OPEN) >= 0
    return descriptor


def happens(look: Callable[[], object]) -> bool:
    try:
        look()
    except BlockingIOError:
        return False
    return True


def in_a_file(scene: Scene) -> dict[str, str]:
    return {"$ref": f"file://{scene.lab.directory / SCHEMA}"}


def references_listed(scene: Scene) -> str | None:
    [found] = [tool for tool in scene.lab.client.tools() if tool["name"] == f"{BAD}_echo"]
    whole = found["inputSchema"]["x"] == in_a_file(scene) and "$ref" in found["outputSchema"]
    return None if whole else f"the tool is listed as {found}"


def secret_nowhere(scene: Scene) -> str | None:
    """Neither in the log, nor in what callers heard, nor in status."""
    places = {
        "log": scene.lab.log.read_text(encoding="utf-8"),
        "status": json.dumps(scene.lab.client.server(BAD)),
        "errors": repr(scene.answers),
        "metrics": repr(scene.lab.metrics()),
    }
    found = [place for place, text in places.items() if SECRET in text]
    return f"the secret is in {', '.join(found)}" if found else None


def stderr_kept(scene: Scene) -> str | None:
    """Else that the secret is not in it says nothing."""
    return None if "spoken" in json.dumps(scene.lab.client.server(BAD)["stderr"]) else "stderr is not shown"


def private(scene: Scene) -> str | None:
    """The child has the usual few variables, and what its entry says, but none of the daemon's own."""
    names = json.loads(scene.answers[-1].said).keys()
    fits = "HOME" in names and names.isdisjoint({"XDG_STATE_HOME", OWN})
    return None if fits else f"the child's variables are {sorted(names)}"


def ask_for_the_page(host: str) -> Step:
    def act(scene: Scene) -> None:
        # The address is the daemon's own, read from its log.
        request = Request(f"{scene.lab.page}/metrics", headers={"host": host})
        try:
            with urlopen(request, timeout=PATIENCE) as page:
                scene.answers.append(Answer(str(page.status), ""))
        except HTTPError as refusal:
            scene.answers.append(Answer(str(refusal.code), ""))
            refusal.close()

    return act


def on_loopback_only(scene: Scene) -> str | None:
    """The kernel says where the daemon listens."""
    mine = {link.readlink().name for link in Path(f"/proc/{scene.lab.pid}/fd").iterdir() if link.is_symlink()}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{scene.lab.pid}/net/{table}").read_text().splitlines()[1:]
    ]
    at = [row[1].partition(":")[0] for row in rows if row[3] == LISTENS and f"socket:[{row[9]}]" in mine]
    return None if at == [LOOPBACK] else f"the daemon listens at {at}"


ROWS = (
    Case(
        "X3",
        Promise.TRUTH,
        given="a server changes a tool's description",
        when="it says so",
        then="whoever listens is told which, and the new one is listed",
        servers={},
        acts=(change_a_description,),
        checks=(outcomes("ok", "told"), said("", f'["{BAD}_echo"]'), new_description_listed),
    ),
    Case(
        "X5",
        Promise.TRUTH,
        given="a server has a secret, and says it",
        when="it is killed, and called then",
        then="it is in no log, no status, no error and no metric",
        servers={BAD: fake(env={"TOKEN": SECRET})},
        acts=(
            call("stderr", text=f"spoken: {SECRET}\n"),
            hit(signal.SIGKILL),
            await_state("unavailable"),
            call("echo"),
        ),
        checks=(outcomes("ok", "not_sent"), stderr_kept, secret_nowhere),
    ),
    Case(
        "X6",
        Promise.NO_HARM,
        given="the daemon has variables of its own",
        when="a server is started",
        then="it has none of them",
        servers={BAD: fake()},
        acts=(call("environ"),),
        checks=(outcomes("ok"), private),
    ),
    Case(
        "X7",
        Promise.NO_HARM,
        given="a header of an entry has a line break",
        when="its remote is started",
        then="nothing is sent, and status says why",
        servers={},
        acts=(behind_http(headers={"x": "a\r\nevil: b"}), await_state("unavailable")),
        checks=(reason("must not hold a line break"), heard("server/discover", 0)),
    ),
    Case(
        "X8",
        Promise.NO_HARM,
        given="a tool's schemas refer to a file and to a host",
        when="it is listed and called",
        then="they are passed on, and never followed",
        servers={},
        acts=(refer_elsewhere,),
        checks=(outcomes("ok", "not followed", "not followed"), references_listed),
    ),
    Case(
        "X10",
        Promise.NO_HARM,
        given="a remote sends a result that unpacks to 100 MB",
        when="it is called",
        then="the daemon does not grow, and the next result is passed on",
        servers={},
        acts=(faulty_once(f"bomb:{HUGE}"), note_memory, call("echo"), call("echo", text="next")),
        checks=(said(TOO_LONG, "next"), grown_at_most(16 * MEBI), state("connected")),
    ),
    Case(
        "X11",
        Promise.NO_HARM,
        given="a page of metrics is served",
        when="it is asked for under another host's name",
        then="it is refused, and is nowhere but on this machine",
        acts=(ask_for_the_page("evil.example"), ask_for_the_page("localhost"), call("echo", text="hello")),
        checks=(outcomes("421", "200", "ok"), on_loopback_only),
    ),
)
