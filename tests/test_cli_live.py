"""The whole way: the program, a real daemon, real servers."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.support import PATIENCE, PROGRAM, Launcher, fake, launching, until
from tests.files import save

AGENTS = {"clock": ["files_echo", "files_absent"]}


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    servers = {
        "files": fake("--stderr", "hello from files"),
        "other": fake("--tools", 1),
        "off": fake(enabled=False),
        "missing": {"command": "/does/not/exist"},
    }
    with launching(tmp_path_factory.mktemp("live")) as launcher:
        launcher.start(servers, agents=AGENTS)
        yield launcher


def typed(launcher: Launcher, *words: str, status: int = 0) -> str:
    done = launcher.command(*words)
    assert done.returncode == status, done
    return done.stdout + done.stderr


def answered(launcher: Launcher, *words: str, status: int = 0) -> Any:
    return json.loads(typed(launcher, "--json", *words, status=status))


def test_orders_are_so_when_the_command_returns(launcher: Launcher) -> None:
    assert typed(launcher, "stop", "other", "files") in (
        "other: stopped\nfiles: stopped\n",
        "files: stopped\nother: stopped\n",
    )
    typed(launcher, "status", "other", status=3)
    assert "connected" in typed(launcher, "start", "other", "files")
    before = answered(launcher, "status", "other")["pid"]
    typed(launcher, "restart", "other")
    assert answered(launcher, "status", "other")["pid"] != before


def test_a_server_is_enabled_and_disabled(launcher: Launcher) -> None:
    assert "use mcp-supervisor enable off" in typed(launcher, "start", "off", status=1)
    assert typed(launcher, "enable", "off") == "off: connected\n"
    assert typed(launcher, "disable", "off") == "off: disabled\n"


def test_orders_that_fail_say_why(launcher: Launcher) -> None:
    assert "/does/not/exist" in typed(launcher, "start", "missing", status=1)
    assert "cannot find server 'nobody'" in typed(launcher, "stop", "nobody", status=3)


def test_why_names_cause_and_fix(launcher: Launcher) -> None:
    explained = typed(launcher, "why", "missing")

    assert explained.startswith("missing: unavailable for ")
    assert "  -> " in explained
    assert "runs       nothing" in explained
    typed(launcher, "why", "nobody", status=3)


def test_logs_show_what_a_server_said(launcher: Launcher) -> None:
    assert "hello from files" in typed(launcher, "logs", "files", "-n", "5")


def test_agents_see_and_call_no_more_than_their_tools(launcher: Launcher) -> None:
    assert "no server has files_absent" in typed(launcher, "agents", "clock")
    [tool] = answered(launcher, "tools", "--agent", "clock")["tools"]
    assert tool["name"] == "files_echo"
    assert typed(launcher, "call", "files_echo", "a=1", "--agent", "clock") == '{"a":"1"}\n'
    assert "cannot" in typed(launcher, "call", "files_pid", "--agent", "clock", status=1)


def test_check_holds_agents_against_the_tools_of_the_daemon(launcher: Launcher) -> None:
    assert "files_absent, which no server has" in typed(launcher, "check", str(launcher.config))


def test_top_shows_calls_and_memory(launcher: Launcher) -> None:
    typed(launcher, "call", "files_echo")

    servers = {server["name"]: server for server in answered(launcher, "top", "--once")["servers"]}
    assert servers["files"]["p50"] > 0
    assert servers["files"]["rss"] > 1_000_000
    assert servers["missing"]["rss"] is None


def test_a_reload_applies_what_changed_and_a_bad_file_is_exit_78(launcher: Launcher) -> None:
    original = launcher.config.read_text()
    changed = json.loads(original)
    changed["mcpServers"]["new"] = fake("--tools", 2)

    save(launcher.config, json.dumps(changed))
    typed(launcher, "reload", "--dry-run")
    assert "unchanged" in typed(launcher, "reload")  # the daemon watches the file, and may have been first
    assert typed(launcher, "status", "new").startswith("name:")
    save(launcher.config, "{")
    typed(launcher, "reload", status=78)
    save(launcher.config, original)
    typed(launcher, "reload")
    typed(launcher, "status", "new", status=3)


@contextmanager
def running(launcher: Launcher, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    environ = {**launcher.environment, "MCP_SUPERVISOR_SOCKET": str(launcher.socket)}
    with subprocess.Popen([PROGRAM, *words], env=environ, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def readable(stream: int) -> bool:
    """Whether something comes soon: changes that are undone at once are not told."""
    return bool(select.select([stream], [], [], 0.2)[0])


def read_until(stream: int, wanted: str) -> str:
    shown = b""
    while wanted.encode() not in shown:
        assert select.select([stream], [], [], PATIENCE)[0], shown
        shown += os.read(stream, 10_000)
    return shown.decode()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["events", "--kind", "transition"], "other: "),
        (["events", "--kind", "catalog"], "catalog "),
        (["logs", "files", "-n", "0", "-f"], "hello from files"),
    ],
)
def test_news_come_as_they_happen_until_ctrl_c(launcher: Launcher, words: list[str], wanted: str) -> None:
    server = "files" if words[0] == "logs" else "other"
    with running(launcher, *words) as child:
        assert child.stdout is not None
        client, news = launcher.started[0].client, child.stdout.fileno()

        def something_came_of(*orders: str) -> bool:
            return any(client.result(order, server=server) and readable(news) for order in orders)

        # Apart, as a quick restart changes nothing that the catalog has to tell.
        until(lambda: something_came_of("servers/stop", "servers/start"))
        assert wanted in read_until(news, wanted)
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
