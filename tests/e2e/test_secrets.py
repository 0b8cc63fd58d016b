"""What is secret stays secret: a canary in every place that may hold one, and a look at all that is said."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Client, Daemon, Json, Launcher, fake, until

CANARY = "canary-3f9c"
"""The part that all canaries share, so that one search finds them all."""
IN_ENV, IN_VARIABLE, IN_FILE = f"{CANARY}-env", f"{CANARY}-variable", f"{CANARY}-file"
IN_HEADER, IN_URL, IN_WRONG = f"{CANARY}-header", f"{CANARY}-url", f"{CANARY}-wrong"


def servers(directory: Path) -> dict[str, Json]:
    (directory / "secret.txt").write_text(IN_FILE + "\n", encoding="utf-8")
    spoken = f"starting with ${{TOKEN}}, ${{SECRET}} and {{file:{directory}/secret.txt}}"
    return {
        "works": fake("--stderr", spoken, env={"TOKEN": IN_ENV, "OTHER": "${SECRET}"}),
        "dies": fake("--stderr", spoken, "--exit-at", "spawn", "--exit-code", 3, env={"TOKEN": IN_ENV}),
        "missing": {"command": "/nowhere/${SECRET}"},
        "homeless": {"command": "/bin/cat", "cwd": "/nowhere/${SECRET}"},
        "remote": {
            "url": f"http://user:{IN_URL}@127.0.0.1:9/mcp?key=${{SECRET}}",
            "headers": {"Authorization": f"Bearer {IN_HEADER}", "X-Key": "${SECRET}"},
        },
        "wrong": {"command": "x", "env": {"TOKEN": [IN_WRONG]}, "headers": IN_WRONG},
        "wronger": {"command": [IN_WRONG], "args": {"a": IN_WRONG}},
        "unset": {"command": "x", "args": ["${SECRET}", "${NOWHERE}"]},
        "twice": fake("--stderr", IN_ENV, env={"TOKEN": IN_ENV}),
        "off": {"command": "x", "args": [IN_ENV], "env": {"TOKEN": IN_ENV}, "enabled": False},
    }


@pytest.fixture(scope="module")
def launched(shared: Launcher) -> Launcher:
    shared.environment |= {"SECRET": IN_VARIABLE, "TOKEN": IN_ENV}
    shared.start(servers(shared.directory), "--log-level", "debug", policy="open")
    return shared


@pytest.fixture
def daemon(launched: Launcher) -> Daemon:
    return launched.started[0]


def test_the_child_gets_its_secrets_and_not_those_of_the_daemon(daemon: Daemon) -> None:
    environment = json.loads(daemon.client.text("works_environ"))

    assert (environment["TOKEN"], environment["OTHER"]) == (IN_ENV, IN_VARIABLE)
    assert "SECRET" not in environment


def test_who_lists_processes_sees_no_secret_but_those_that_were_put_among_arguments(
    launcher: Launcher,
) -> None:
    launcher.environment["SECRET"] = IN_VARIABLE
    (launcher.directory / "secret.txt").write_text(IN_FILE, encoding="utf-8")
    held = {"TOKEN": IN_ENV, "OTHER": "${SECRET}", "FILE": "{file:secret.txt}"}
    daemon = launcher.start({"one": fake(env=held), "shown": fake("--stderr", "${SECRET}")})

    shown = [words for pid in (daemon.process.pid, *daemon.pids()) if CANARY in (words := arguments(pid))]

    assert json.loads(daemon.client.text("one_environ"))["FILE"] == IN_FILE
    assert shown == [arguments(daemon.client.server("shown")["pid"])]


def arguments(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")


def spoken(client: Client) -> Iterator[str]:
    """Everything that the control socket says of itself."""
    for method in ("supervisor/info", "servers/list"):
        yield json.dumps(client.reply(method))
    for server in client.result("servers/list")["servers"]:
        yield json.dumps(client.server(server["name"]))
    yield json.dumps(client.result("tools/list", all=True))


def test_no_answer_tells_a_secret(daemon: Daemon) -> None:
    said = "\n".join(spoken(daemon.client))

    assert CANARY not in said
    assert "starting with ***, *** and ***" in said


def test_no_error_tells_a_secret(daemon: Daemon) -> None:
    client = daemon.client
    client.text("works_stderr", text=f"now with {IN_ENV}\n")
    late = client.error("tools/call", name="works_sleep", arguments={"seconds": 1000}, timeout=0.05)

    assert CANARY not in json.dumps(late)
    assert "now with ***" in late["data"]["stderr"]


def test_the_last_words_of_a_crash_tell_no_secret(launcher: Launcher) -> None:
    launcher.environment["SECRET"] = IN_VARIABLE
    daemon = launcher.start({"one": fake(env={"TOKEN": "${SECRET}"})}, "--log-level", "debug", policy="open")
    daemon.client.text("one_stderr", text=f"falling with {IN_VARIABLE} without a newline")

    error = daemon.client.refusal("one_crash")
    until(lambda: daemon.logged("error"))

    assert CANARY not in json.dumps(error)
    assert CANARY not in daemon.log.read_text(encoding="utf-8")
    assert CANARY not in json.dumps(daemon.client.server("one"))


def test_the_log_tells_no_secret_even_at_debug(daemon: Daemon) -> None:
    logged = daemon.log.read_text(encoding="utf-8")

    assert CANARY not in logged
    assert "starting with ***, *** and ***" in logged


def test_the_log_warns_of_a_secret_among_arguments(daemon: Daemon) -> None:
    warned = [text for text in daemon.said("warning") if "server unset, args[0]: shows a secret" in text]

    assert len(warned) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "works"),
        ("status", "dies", "--json"),
        ("tools", "--all"),
        ("why", "twice"),
        ("why", "off", "--json"),
    ],
)
def test_no_command_prints_a_secret(launched: Launcher, words: tuple[str, ...]) -> None:
    done = launched.command(*words)

    assert done.stdout
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [("check",), ("check", "--json")])
def test_a_check_prints_no_secret(launched: Launcher, words: tuple[str, ...]) -> None:
    done = launched.command(*words, str(launched.config))

    assert done.returncode == 78
    assert "mcpServers.wrong.env.TOKEN" in done.stdout
    assert CANARY not in done.stdout + done.stderr


def test_nothing_that_is_remembered_tells_a_secret(launcher: Launcher) -> None:
    launcher.environment["SECRET"] = IN_VARIABLE
    launcher.start({"old": fake("--era", "rmcp", "--stderr", "${SECRET}", env={"TOKEN": IN_ENV})}).end()

    written = [path for path in (launcher.directory / "state").rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if CANARY in path.read_text(encoding="utf-8")]


def test_a_secret_of_several_lines_is_hidden_line_by_line(launcher: Launcher) -> None:
    key = f"{CANARY}-first-line\n{CANARY}-second-line"
    client = launcher.start({"one": fake(env={"KEY": key})}).client

    client.text("one_stderr", text=key + "\n")

    assert until(lambda: client.server("one")["stderr"])
    assert CANARY not in json.dumps(client.server("one"))


def test_a_secret_at_the_edge_of_a_line_that_is_cut_is_hidden(launcher: Launcher) -> None:
    secret = f"{CANARY}-{'s' * 200}"
    client = launcher.start({"one": fake(env={"KEY": secret})}).client

    client.text("one_stderr", text="." * 8100 + secret + "\n")

    assert until(lambda: client.server("one")["stderr"])
    assert CANARY not in json.dumps(client.server("one"))
