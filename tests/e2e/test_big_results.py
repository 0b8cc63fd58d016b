"""A result line of 50 MB is relayed, cut or refused, soon, while other servers answer as ever."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from supervisor.core.jsonrpc import decode_message
from tests.e2e.support import Client, Daemon, Launcher, fake

BIG = 50_000_000
SOON, PROMPT = 30, 6
"""How many times as long as reading the big line the daemon may work for it, and before a small answer.

A reading takes some 20 ms. Its work, not the time that passes, and in such a measure: a busy machine makes
everybody wait and slow.
"""
MEBIBYTE = 1024 * 1024
BIG_SERVERS = ("big1", "big2", "big3", "big4", "big5")


@dataclass(slots=True)
class Prober:
    """Calls a small tool again and again and remembers how much the daemon did before each answer."""

    daemon: Daemon
    client: Client
    work: list[float] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.done.is_set():
            before = worked(self.daemon)
            self.client.text("small_echo")
            self.work.append(worked(self.daemon) - before)


@contextmanager
def probing(daemon: Daemon) -> Iterator[Prober]:
    with Client(daemon.socket) as client:
        prober = Prober(daemon, client)
        thread = threading.Thread(target=prober.run)
        thread.start()
        try:
            yield prober
        finally:
            prober.done.set()
            thread.join()


@dataclass(frozen=True, slots=True)
class Measured:
    """The line that answered a call of 50 MB, and the daemon's work for it and before each small answer."""

    line: bytes
    whole: float
    longest: float
    reading: float
    """What it takes here and now to read such a line once."""

    @property
    def soon(self) -> bool:
        return self.whole < SOON * self.reading

    @property
    def promptly(self) -> bool:
        """Whether nobody else had to wait for it for long."""
        return self.longest < PROMPT * self.reading


LINE = b'{"id":1,"result":{"content":[{"type":"text","text":"%s"}]}}' % (b"x" * BIG)


def reading() -> float:
    """Seconds of a processor that one look at every byte of a big line takes."""
    before = time.thread_time()
    assert decode_message(LINE).id == 1
    return time.thread_time() - before


def worked(daemon: Daemon) -> float:
    """Seconds that the daemon has been on a processor."""
    with open(f"/proc/{daemon.process.pid}/schedstat", encoding="ascii") as schedstat:  # noqa: PTH123
        return int(schedstat.read().split()[0]) / 1e9


BIG_CALL = {"name": "big", "arguments": {"bytes": BIG}}


def measure(daemon: Daemon, server: str, call: dict[str, Any]) -> Measured:
    """Call a tool with a big answer, and a small one beside it until the answer is there."""
    buffer = bytearray(BIG + MEBIBYTE)
    with Client(daemon.socket) as client, probing(daemon) as prober:
        before = worked(daemon)
        client.ask("tools/call", **{**call, "name": f"{server}_{call['name']}"})
        size = read_line(client, buffer)
        whole = worked(daemon) - before
        scale = reading()
    return Measured(bytes(memoryview(buffer)[:size]), whole, max(prober.work), scale)


def read_line(client: Client, buffer: bytearray) -> int:
    """Read one answer without holding the interpreter, which the prober's thread needs."""
    view, end = memoryview(buffer), 0
    while not end or buffer[end - 1] != ord("\n"):
        end += client.socket.recv_into(view[end:])
    return end


def undisturbed(daemon: Daemon, call: dict[str, Any] = BIG_CALL) -> Measured:
    """The first of a few measurements that keeps the promise: other programs may disturb some of them."""
    *earlier, last = BIG_SERVERS
    for server in earlier:
        measured = measure(daemon, server, call)
        if measured.soon and measured.promptly:
            return measured
    return measure(daemon, last, call)


def start(launcher: Launcher, **settings: int) -> Daemon:
    return launcher.start({name: fake() for name in ("small", *BIG_SERVERS)}, **settings)


def test_by_default_it_is_cut_to_five_mebibytes_with_a_mark(either_loop: Launcher) -> None:
    daemon = start(either_loop)

    measured = undisturbed(daemon)

    assert measured.soon
    assert measured.promptly
    assert 5 * MEBIBYTE - 4096 < len(measured.line) < 5 * MEBIBYTE + 4096
    assert b"bytes left out]" in measured.line[-300:]


def test_where_the_limit_allows_it_it_is_relayed_whole(launcher: Launcher) -> None:
    daemon = start(launcher, maxResultBytes=64 * MEBIBYTE)

    measured = undisturbed(daemon)

    assert measured.soon
    assert measured.promptly
    assert measured.line.count(b"x") >= BIG


def test_a_line_over_the_limit_ends_the_server_and_the_call_says_so(launcher: Launcher) -> None:
    daemon = start(launcher, maxLineBytes=16 * MEBIBYTE)

    measured = undisturbed(daemon)

    assert measured.soon
    assert measured.promptly
    assert b'"outcome":"unknown"' in measured.line
    assert b"a message is longer than 16777216 bytes (maxLineBytes)" in measured.line


@pytest.fixture(scope="module")
def daemon(shared: Launcher) -> Daemon:
    return start(shared)


TEXT = '{"content":[{"type":"text","text":"'
TOO_MUCH = b"holds too many values or escapes to be read; ask it for less at a time"
HARD_TO_READ = [
    pytest.param(('{"content":[],"x":[', "[],", "0]}"), BIG // 3, TOO_MUCH, id="values"),
    pytest.param((TEXT, r"\n", '"}]}'), BIG // 2, TOO_MUCH, id="escapes"),
    pytest.param((TEXT, "x", r'\ud83d"}]}'), BIG // 2, b"bytes left out]", id="half a character"),
    pytest.param(("{", '"content":[],', '"content":[]}'), MEBIBYTE // 4, b"(no output)", id="many contents"),
]


@pytest.mark.parametrize(("parts", "count", "heard"), HARD_TO_READ)
def test_one_that_is_hard_to_read_holds_up_nobody(
    daemon: Daemon, parts: tuple[str, str, str], count: int, heard: bytes
) -> None:
    result = dict(zip(("before", "unit", "after"), parts, strict=True), count=count)

    measured = undisturbed(daemon, {"name": "cram", "arguments": result, "flatten": True})

    assert measured.soon
    assert measured.promptly
    assert heard in measured.line


@pytest.mark.parametrize("size", [5 * MEBIBYTE - 200, 5 * MEBIBYTE + 1])
def test_a_text_is_whole_up_to_the_limit_and_marked_past_it(daemon: Daemon, size: int) -> None:
    text = daemon.client.text("big1_big", bytes=size)

    assert ("left out" in text) == (size > 5 * MEBIBYTE)


def test_more_of_them_leave_the_daemon_as_small_as_it_was(daemon: Daemon) -> None:
    daemon.client.text("big1_big", bytes=BIG)
    before = resident(daemon)

    for _ in range(3):
        daemon.client.text("big1_big", bytes=BIG)

    assert resident(daemon) < before + BIG


def resident(daemon: Daemon) -> int:
    """Bytes of memory that the daemon holds."""
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * 4096
