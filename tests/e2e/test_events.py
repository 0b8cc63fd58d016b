"""News, followed logs, and what becomes of those who are slow to hear them."""

import json
import os
import signal
from pathlib import Path

from tests.e2e.support import Client, Json, Launcher, fake, until
from tests.files import save


def news(client: Client, kind: str) -> Json:
    """The next event of that kind."""
    while True:
        message: Json = client.receive()
        if message.get("method") == "notifications/events" and message["params"]["kind"] == kind:
            params: Json = message["params"]
            return params


def test_a_subscriber_hears_of_a_death_and_of_the_tools_that_left(launcher: Launcher) -> None:
    daemon = launcher.start({"s": {**fake("--tools", 2), "enabled": False}})
    listener = daemon.connect()
    listener.result("events/subscribe")
    daemon.client.result("servers/enable", server="s")
    assert news(listener, "catalog")["changed"] == ["s_echo", "s_echo_2"]

    os.kill(daemon.client.server("s")["pid"], signal.SIGKILL)

    change = news(listener, "transition")
    assert (change["server"], change["before"], change["phase"]) == ("s", "ready", "unavailable")
    assert "signal 9" in change["reason"]
    catalog = news(listener, "catalog")
    assert catalog["removed"] == ["s_echo", "s_echo_2"]
    assert any("unavailable" in cause for cause in catalog["causes"])


def describe(file: Path, descriptions: dict[str, str]) -> None:
    """Have the fake server list these tools."""
    tools = [
        {"name": name, "description": description, "inputSchema": {"type": "object"}}
        for name, description in descriptions.items()
    ]
    save(file, json.dumps(tools))


def test_a_description_that_changes_is_news_and_is_listed_since(launcher: Launcher) -> None:
    described = launcher.directory / "tools.json"
    describe(described, {"echo": "says it again", "change_tools": "tells of news"})
    daemon = launcher.start({"s": {**fake("--tools-json", described), "enabled": False}})
    listener = daemon.connect()
    listener.result("events/subscribe", kinds=["catalog"])
    daemon.client.result("servers/enable", server="s")
    before = news(listener, "catalog")["generation"]

    describe(described, {"echo": "says it to a stranger", "change_tools": "tells of news"})
    daemon.client.text("s_change_tools", add=0)

    told = news(listener, "catalog")
    assert (told["changed"], told["removed"]) == (["s_echo"], [])
    since = daemon.client.result("tools/list", since=before)
    assert [tool["description"] for tool in since["tools"]] == ["says it to a stranger"]
    assert (since["removed"], since["generation"]) == ([], told["generation"])


def test_a_subscriber_hears_only_the_kinds_it_asked_for(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    listener = daemon.connect()
    listener.result("events/subscribe", kinds=["reload"])

    daemon.client.result("servers/restart", server="s")
    daemon.client.result("supervisor/reload")

    assert listener.receive()["params"]["kind"] == "reload"


def test_an_unknown_kind_is_refused_by_name(launcher: Launcher) -> None:
    daemon = launcher.start({})

    error = daemon.client.error("events/subscribe", kinds=["gossip"])

    assert error["code"] == -32602
    assert "kinds" in error["message"]


def test_a_slow_subscriber_loses_the_oldest_and_is_told_how_many(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()})
    slow = daemon.connect()
    slow.result("events/subscribe", kinds=["log"])
    for _ in range(400):  # little by little, for a flood is skimmed
        daemon.client.text("s_stderr", text="x" * 1000 + "\n", bytes=20_000)
    until(lambda: daemon.client.server("s")["stderr"])
    daemon.client.text("s_stderr", text="the last line\n")

    kinds = []
    while "the last line" not in (line := slow.line()).decode():
        kinds.append(b'"kind":"lost"' in line)

    assert any(kinds)


def test_a_log_can_be_read_and_followed(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake("--stderr", "hello from the start")})
    follower = daemon.connect()

    lines = follower.result("servers/logs", server="s", follow=True)["lines"]
    daemon.client.text("s_stderr", text="and now this\n")

    assert lines[-1]["text"] == "hello from the start"
    told = follower.receive()
    assert (told["method"], told["params"]["text"]) == ("notifications/log", "and now this")


def test_a_half_closed_client_still_gets_its_answer(launcher: Launcher) -> None:
    import socket

    daemon = launcher.start({"s": fake()})
    client = daemon.connect()
    client.ask("tools/call", name="s_sleep", arguments={"seconds": 0.2})

    client.socket.shutdown(socket.SHUT_WR)

    assert "result" in client.receive()
    assert client.line() == b""
