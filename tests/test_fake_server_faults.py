"""The fake server fails exactly as its options ask: other tests rely on its faults."""

import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_servers.driver import Start, fakes


@pytest.fixture
def start() -> Iterator[Start]:
    with fakes() as starting:
        yield starting


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody has reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_content_length_framing_is_used_both_ways(start: Start) -> None:
    fake = start("--framing", "content-length")
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

    fake.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    expected = b'Content-Length: 36\r\n\r\n{"jsonrpc":"2.0","id":1,"result":{}}'
    assert fake.read(until=lambda unread: len(unread) >= len(expected)) == expected


def test_a_line_that_is_not_json_is_a_parse_error(start: Start) -> None:
    fake = start()

    fake.write(b"nonsense\n\n")

    assert fake.receive()["error"]["code"] == -32700


def test_garbage_wrong_ids_and_duplicates_surround_an_answer(start: Start) -> None:
    fake = start("--garbage", "--wrong-id", "--duplicate-answer")

    fake.ask("tools/call", name="counter")

    assert fake.line() == b"this is not JSON"
    assert [fake.receive()["id"] for _ in range(3)] == [987654321, 1, 1]


def test_an_answer_can_be_broken_utf8_at_a_chosen_stage(start: Start) -> None:
    fake = start("--bad-utf8", "--fault-at", "list")
    assert fake.call("counter") == "1"

    fake.ask("tools/list")

    with pytest.raises(UnicodeDecodeError):
        fake.line().decode()


def test_half_a_line_is_followed_by_the_end(start: Start) -> None:
    fake = start("--half-line", "--exit-code", "3")

    fake.ask("tools/call", name="counter")

    assert b"\n" not in fake.read(until=lambda _unread: False)
    assert fake.wait() == 3


def test_an_endless_line_has_its_size_and_no_end(start: Start) -> None:
    fake = start("--endless-line", "1000000")

    fake.ask("tools/call", name="counter")

    line = fake.read(until=lambda unread: len(unread) >= 1_000_000)
    assert (len(line), b"\n" in line, fake.process.poll()) == (1_000_000, False, None)


@pytest.mark.parametrize(
    ("stage", "method"),
    [
        ("discover", "server/discover"),
        ("initialize", "initialize"),
        ("list", "tools/list"),
        ("call", "tools/call"),
    ],
)
def test_it_exits_at_a_chosen_stage(start: Start, stage: str, method: str) -> None:
    fake = start("--exit-at", stage, "--exit-code", "9")
    fake.result("ping")

    fake.ask(method, name="echo")

    assert fake.wait() == 9


def test_it_can_exit_at_once(start: Start) -> None:
    assert start("--exit-at", "spawn", "--exit-code", "1").wait() == 1


def test_a_silent_server_reads_to_the_end_and_says_nothing(start: Start, tmp_path: Path) -> None:
    fake = start("--silent", "--log", tmp_path / "log")
    fake.ask("ping")
    fake.end_input()

    assert fake.read(until=lambda _unread: False) == b""
    assert [set(record) for record in logged(tmp_path / "log")] == [{"started"}, {"received"}, {"end"}]


@pytest.mark.parametrize("how", ["option", "tool"])
def test_a_closed_stdout_leaves_the_server_alive(start: Start, how: str) -> None:
    fake = start("--close-stdout") if how == "option" else start()
    if how == "option":
        fake.handshake()
    else:
        fake.call("close_stdout")

    assert fake.read(until=lambda _unread: False) == b""
    assert fake.process.poll() is None


@pytest.mark.parametrize("how", ["option", "tool"])
def test_a_deaf_server_does_not_see_its_input_end(start: Start, how: str, tmp_path: Path) -> None:
    options = ("--deaf", "--notify-flood", "1") if how == "option" else ()
    fake = start("--log", tmp_path / "log", *options)
    if how == "option":
        fake.handshake()
        assert fake.receive()["method"] == "notifications/message"
    else:
        fake.call("deaf")
    fake.end_input()
    fake.process.terminate()

    assert fake.wait() == -signal.SIGTERM
    assert logged(tmp_path / "log")[-1] == {"signal": "SIGTERM"}
    assert {"end": "stdin"} not in logged(tmp_path / "log")


def test_it_can_behave_as_cat(start: Start) -> None:
    fake = start("--echo")

    fake.write(b"anything\n")

    assert fake.line() == b"anything"


def test_a_slow_start_delays_the_first_answer_only(start: Start) -> None:
    assert start("--slow-start", "0.05").result("ping") == {}


def test_a_start_that_is_held_goes_on_when_the_file_is_there(start: Start, tmp_path: Path) -> None:
    fake = start("--hold-start", tmp_path / "gate")
    fake.ask("ping")

    (tmp_path / "gate").touch()

    assert fake.receive()["result"] == {}


@pytest.mark.parametrize("option", ["--nonsense", "--era nonsense"])
def test_a_mistyped_option_is_refused(start: Start, option: str) -> None:
    fake = start(*option.split())

    assert fake.wait() == 1
    assert fake.process.stderr is not None
    assert fake.process.stderr.read().startswith(b"cannot ")


# Life and death.


def test_it_ends_with_its_input(start: Start) -> None:
    fake = start("--exit-code", "5")
    fake.end_input()

    assert fake.wait() == 5


def test_a_stubborn_server_lives_through_both_polite_ends(start: Start, tmp_path: Path) -> None:
    fake = start("--ignore-eof", "--ignore-sigterm", "--log", tmp_path / "log")
    fake.call("crash", signal="SIGTERM")
    fake.end_input()
    fake.process.send_signal(signal.SIGHUP)

    assert fake.wait() == -signal.SIGHUP
    assert {"signal": "SIGTERM"} in logged(tmp_path / "log")


@pytest.mark.parametrize("kind", ["group", "setsid", "double-fork"])
def test_a_grandchild_outlives_its_leader(start: Start, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    options = ("--grandchild", kind, "--grandchild-pidfile", path, "--grandchild-ignores-term")
    fake = start(*options, "--leader-exits-on-term", "--exit-code", "6")
    fake.result("ping")
    grandchild = int(path.read_text())

    os.killpg(fake.process.pid, signal.SIGTERM)

    try:
        assert fake.wait() == 6
        assert is_alive(grandchild)
        assert (os.getpgid(grandchild) == fake.process.pid) == (kind == "group")
        assert (os.getsid(grandchild) == grandchild) == (kind == "setsid")
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_grandchild_of_the_group_holds_stdout_open(start: Start, tmp_path: Path) -> None:
    fake = start("--grandchild", "group", "--grandchild-pidfile", tmp_path / "pid")
    fake.result("ping")
    fake.process.kill()
    fake.wait()
    assert fake.process.stdout is not None

    assert select.select([fake.process.stdout], [], [], 0)[0] == []
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
    assert fake.read(until=lambda _unread: False) == b""
