"""Faults of the daemon's surroundings, which no row of the kit can bring about."""

import json
import socket
import subprocess
from pathlib import Path

from tests.e2e.support import PATIENCE, PROGRAM, Client, Daemon, Launcher, answers, fake, until

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
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        schema = {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"}
        secret = {"$ref": "file:///etc/passwd"}
        tool = {"name": "echo", "inputSchema": {"type": "object", "x": secret}, "outputSchema": schema}
        listed = launcher.directory / "tools.json"
        listed.write_text(json.dumps([tool]), encoding="utf-8")
        client = launcher.start({"a": fake("--tools-json", listed)}).client
        client.text("a_echo", text="hello")
        [found] = client.result("tools/list")["tools"]

        assert (found["outputSchema"], found["inputSchema"]["x"]) == (schema, secret)
        assert nobody_came(listener)


def nobody_came(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False
