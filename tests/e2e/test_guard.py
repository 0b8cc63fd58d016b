"""The policy of the operator: what is listed, what is refused, what needs a yes."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.e2e.support import Client, Launcher, fake, launching, until

WRITES, SILENT, READS = "one_crash", "one_noise", "one_echo"
"""A tool that says it writes, one that says nothing of itself, and one that only reads."""


@pytest.fixture(scope="module")
def by_policy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    """The client of a daemon for each policy; `default` is the one that has none set."""
    with ExitStack() as stack:
        clients = {}
        for policy in ("default", "confirm", "open"):
            launcher = stack.enter_context(launching(tmp_path_factory.mktemp(policy)))
            settings = {} if policy == "default" else {"policy": policy}
            servers = {"one": fake(), "chosen": fake(tools=["e*", "!echo"])}
            clients[policy] = launcher.start(servers, **settings).client
        yield clients


def approvals(client: Client) -> dict[str, str]:
    tools = client.result("tools/list")["tools"]
    return {tool["name"]: tool["_meta"]["approval"] for tool in tools}


def test_by_default_a_tool_that_says_it_writes_is_neither_listed_nor_callable(
    by_policy: dict[str, Client],
) -> None:
    client = by_policy["default"]

    error = client.refusal(WRITES)

    assert WRITES not in client.tools()
    assert {SILENT, READS} <= set(client.tools())
    assert (error["code"], error["data"]) == (-32008, {"server": "one", "outcome": "rejected"})
    assert client.server("one")["leftOut"][0]["name"] == WRITES


def test_by_default_an_approval_does_not_open_what_is_refused(by_policy: dict[str, Client]) -> None:
    client = by_policy["default"]

    assert client.error("tools/call", name=WRITES, approved=True)["code"] == -32008
    assert client.server("one")["state"] == "connected"


def test_with_confirm_everything_is_listed_with_what_it_needs(by_policy: dict[str, Client]) -> None:
    found = approvals(by_policy["confirm"])

    assert (found[WRITES], found[SILENT], found[READS]) == ("confirm", "confirm", "auto")


def test_a_typo_in_the_policy_opens_nothing(launcher: Launcher) -> None:
    daemon = launcher.start({"s": fake()}, policy="confirm")
    assert "without approval" in daemon.client.refusal("s_noise")["message"]
    launcher.configure({"s": fake()}, policy="confrim")

    until(lambda: daemon.client.result("supervisor/info")["problems"])

    assert "without approval" in daemon.client.refusal("s_noise")["message"]
    assert launcher.command("reload").returncode == 78
    assert any("supervisor.policy" in line for line in daemon.said("error"))
    assert "what was good last stays in force" in launcher.command("status").stdout


@pytest.mark.parametrize("wrong", [{"policy": "confrim"}, {"defaults": {"tools": 5}}], ids=str)
def test_a_guard_that_cannot_be_read_ends_the_start(launcher: Launcher, wrong: dict[str, Any]) -> None:
    launcher.configure({"s": fake()}, **wrong)

    daemon = launcher.spawn()

    assert daemon.wait() == 78
    assert f"correct supervisor.{next(iter(wrong))}" in daemon.said("error")[-1]


def test_with_confirm_a_call_needs_a_yes_of_its_own(by_policy: dict[str, Client]) -> None:
    client = by_policy["confirm"]

    without = client.refusal(SILENT)
    approved = client.result("tools/call", name=SILENT, approved=True)
    again = client.refusal(SILENT)

    assert (without["code"], without["data"]["outcome"]) == (-32008, "rejected")
    assert "approved: true" in without["message"]
    assert approved["content"][0]["text"] == "that was noise"
    assert again["code"] == -32008
    assert client.text(READS) == "{}"


def test_with_open_everything_may_be_called(by_policy: dict[str, Client]) -> None:
    client = by_policy["open"]

    assert set(approvals(client).values()) == {"auto"}
    assert client.refusal(WRITES, code=5)["data"]["exit"]["code"] == 5


def test_what_is_refused_stays_refused_when_its_server_is_gone(launcher: Launcher) -> None:
    client = launcher.start({"one": fake(tools=["*", "!sleep"])}).client
    client.result("servers/stop", server="one")

    codes = {name: client.refusal(name)["code"] for name in (WRITES, "one_sleep", READS, "one_sing")}

    assert codes == {WRITES: -32008, "one_sleep": -32008, READS: -32003, "one_sing": -32002}
    assert client.error("tools/get", name=WRITES)["code"] == -32008


def test_no_server_has_only_what_none_ever_had(launcher: Launcher) -> None:
    patterns = [WRITES, READS, "two_echo", "two_crash", "off_echo", "one_sing", "two_sing"]
    servers = {"one": fake(), "two": fake(), "off": fake(enabled=False)}
    client = launcher.start(servers, agents={"a": patterns}).client
    client.result("servers/stop", server="two")

    absent = client.result("agents/get", agent="a")["unmatched"]
    checked = launcher.command("check", str(launcher.config)).stdout

    assert absent == ["one_sing", "two_sing"]
    assert [name for name in patterns if f"{name}, which no server has" in checked] == absent


def test_globs_of_an_entry_hide_its_tools(by_policy: dict[str, Client]) -> None:
    client = by_policy["default"]

    shown = [name for name in client.tools() if name.startswith("chosen_")]

    assert shown == ["chosen_end_listen", "chosen_environ", "chosen_error", "chosen_exit_later"]
    assert client.refusal("chosen_echo")["data"]["outcome"] == "rejected"
