"""Faults of the daemon's surroundings, which no row of the kit can bring about."""

import ctypes
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.support import PATIENCE, PROGRAM, Client, Daemon, Launcher, answers, fake, until

IN_OPEN = 0x20
"""From <sys/inotify.h>."""
HASTE = [
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    for method, params in [("supervisor/ping", {}), ("servers/restart", {"server": "a"})] * 20
]


def test_a_full_disk_under_log_and_state_costs_neither_start_nor_calls(launcher: Launcher) -> None:
    launcher.configure({"a": fake("--era", "rmcp")})
    launcher.environment["XDG_STATE_HOME"] = "/dev/full"
    words = ["run", "--config", str(launcher.config), "--socket", str(launcher.socket)]
    with Path("/dev/full").open("wb", buffering=0) as full:
        process = subprocess.Popen([PROGRAM, *words], env=launcher.environment, stderr=full)
    daemon = Daemon(process, launcher.socket, Path("/dev/null"))
    launcher.started.append(daemon)
    until(lambda: answers(daemon))
    until(daemon.client.settled)

    assert daemon.client.text("a_echo", text="hello") == '{"text": "hello"}'


FULL = 'mount -t tmpfs -o size=64k none "$0" && { cat /dev/zero > "$0/full" 2> /dev/null; exec "$@"; }'
"""Runs a program for which a directory is on a disk of its own, and that is full."""
OWN_MOUNTS = ("unshare", "--mount", "--", "sh", "-c", FULL)


def on_a_full_disk(launcher: Launcher) -> Daemon:
    """A daemon that can make directories for its state, and no byte in them."""
    state = launcher.directory / "full"
    state.mkdir()
    if subprocess.run([*OWN_MOUNTS, state, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nobody may mount a disk of his own here")
    launcher.environment["XDG_STATE_HOME"] = str(state)
    return launcher.spawn(before=(*OWN_MOUNTS, str(state)))


def test_no_room_for_state_is_said_and_costs_neither_calls_nor_orders(launcher: Launcher) -> None:
    launcher.configure({"a": fake("--era", "rmcp"), "b": fake()})
    daemon = on_a_full_disk(launcher)
    until(lambda: answers(daemon))
    until(daemon.client.settled)

    assert daemon.client.result("servers/disable", server="b")["state"] == "disabled"

    assert daemon.client.text("a_echo", text="hello") == '{"text": "hello"}'
    said = [text for text in daemon.said("warning") if text.endswith("No space left on device")]
    assert len(said) == 2, daemon.said()  # what it has learnt of a, and the order for b
    assert all("so this is forgotten at the next start" in text for text in said)


def test_an_answer_that_there_is_no_room_for_is_a_failure_in_words(launcher: Launcher) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        done = subprocess.run(
            [PROGRAM, "version"],
            env=launcher.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )

    said = b"mcp-supervisor: cannot print all of it: there is no room left; make some\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_client_that_leaves_before_its_order_is_begun_leaves_no_trace(launcher: Launcher) -> None:
    daemon = launcher.start({"a": fake()})
    for _ in range(30):
        with Client(daemon.socket) as hasty:
            hasty.write(b"".join(HASTE))
    daemon.client.result("servers/start", server="a")
    daemon.end()

    written = daemon.log.read_text(encoding="utf-8").splitlines()
    assert [line for line in written if not line.startswith("{")] == []


def test_references_in_a_schema_are_passed_on_and_never_followed(launcher: Launcher) -> None:
    file = launcher.directory / "schema.json"
    file.write_text('{"type": "object"}', encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener, told_of_openings(file) as openings:
        listener.setblocking(False)
        schema = {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"}
        secret = {"$ref": file.as_uri()}
        tool = {"name": "echo", "inputSchema": {"type": "object", "x": secret}, "outputSchema": schema}
        listed = launcher.directory / "tools.json"
        listed.write_text(json.dumps([tool]), encoding="utf-8")
        client = launcher.start({"a": fake("--tools-json", listed)}).client
        client.text("a_echo", text="hello")
        [found] = client.result("tools/list")["tools"]

        assert (found["outputSchema"], found["inputSchema"]["x"]) == (schema, secret)
        assert nobody_came(listener)
        assert nobody_opened(openings)
        file.read_text(encoding="utf-8")
        assert not nobody_opened(openings)


@contextmanager
def told_of_openings(file: Path) -> Iterator[int]:
    """A descriptor from which something can be read as soon as anybody has opened the file."""
    library = ctypes.CDLL(None)
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        assert library.inotify_add_watch(descriptor, bytes(file), IN_OPEN) >= 0
        yield descriptor
    finally:
        os.close(descriptor)


def nobody_opened(openings: int) -> bool:
    try:
        return not os.read(openings, 4096)
    except BlockingIOError:
        return True


def nobody_came(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False
