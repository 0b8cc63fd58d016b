"""What the journal gets: entries with fields at its socket, and plain lines when it does not take them."""

import functools
import io
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.journal import Journal, encode, field_name
from supervisor.logs import about, configure, lost_lines, write_later


class Journald:
    """The other end: a real datagram socket, and a reader of the native protocol."""

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)

    def entry(self) -> dict[str, str]:
        """The next entry; fails when there is none."""
        return decode(self._socket.recv(1 << 20))

    def close(self) -> None:
        self._socket.close()
        Path(self.address).unlink(missing_ok=True)


def decode(datagram: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    while datagram:
        head, _, datagram = datagram.partition(b"\n")
        name, is_plain, value = head.partition(b"=")
        if not is_plain:
            size = int.from_bytes(datagram[:8], "little")
            value, datagram = datagram[8 : 8 + size], datagram[8 + size + 1 :]
        fields[name.decode()] = value.decode()
    return fields


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[Journald]:
    journald = Journald(tmp_path / "journal")
    yield journald
    journald.close()


@pytest.fixture
def stream(journald: Journald) -> Iterator[io.StringIO]:
    """Standard error, of a program whose lines are meant for that journal."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    configure("text", "info", journal=journald.address, stream=stream)
    yield stream
    root.handlers[0].close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


def test_an_entry_has_message_priority_and_the_fields_of_its_record(
    journald: Journald, stream: io.StringIO
) -> None:
    extra = about("files", phase="ready", run=2)
    logging.getLogger("supervisor.fleet").warning("files: %s", "ready", extra=extra)

    entry = journald.entry()
    place = {name: entry.pop(name) for name in ("CODE_FILE", "CODE_LINE", "CODE_FUNC")}
    assert entry == {
        "MESSAGE": "supervisor.fleet: files: ready",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "mcp-supervisor",
        "LOGGER": "supervisor.fleet",
        "MCP_SERVER": "files",
        "MCP_PHASE": "ready",
        "MCP_RUN": "2",
    }
    assert place["CODE_FILE"] == __file__
    assert stream.getvalue() == ""


def test_a_line_goes_to_the_stream_while_nobody_takes_entries_and_to_the_journal_again_after(
    journald: Journald, stream: io.StringIO
) -> None:
    logger, path = logging.getLogger("supervisor"), Path(journald.address)
    journald.close()
    logger.error("first")
    restarted = Journald(path)
    logger.error("second")

    assert stream.getvalue() == "<3>supervisor: first\n"
    assert restarted.entry()["MESSAGE"] == "supervisor: second"
    restarted.close()


def test_an_entry_that_is_too_long_for_a_datagram_goes_to_the_stream(
    journald: Journald, stream: io.StringIO
) -> None:
    logging.getLogger("supervisor").info("%s", "x" * (1 << 20))

    assert stream.getvalue().startswith("<6>supervisor: xxx")


def test_a_journal_that_is_behind_costs_no_line(journald: Journald) -> None:
    journal = Journal(journald.address)
    entries = [{"NUMBER": number} for number in range(5000)]

    taken = [journal.takes(entry) for entry in entries]
    journal.close()

    assert taken[0]
    assert not taken[-1]


def test_entries_that_wait_come_before_the_next_one(journald: Journald, stream: io.StringIO) -> None:
    logger = logging.getLogger("supervisor")
    write_later(functools.partial(logger.info, "first"))
    logger.info("second")

    assert [journald.entry()["MESSAGE"] for _ in range(2)] == ["supervisor: first", "supervisor: second"]
    assert stream.getvalue() == ""


class Unsayable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_entry_that_cannot_be_made_is_a_lost_line(stream: io.StringIO) -> None:
    logging.getLogger("supervisor").info("files: ready", extra=about("files", reason=Unsayable()))

    assert lost_lines() == 1
    assert stream.getvalue() == ""


@pytest.mark.parametrize("value", ["plain", "a=b", "", "two\nlines", "\n", "ünïcode\n✓"])
def test_every_value_arrives_as_it_was(value: str) -> None:
    assert decode(encode({"BEFORE": 1, "VALUE": value, "AFTER": 2})) == {
        "BEFORE": "1",
        "VALUE": value,
        "AFTER": "2",
    }


def test_half_a_character_is_escaped_and_not_fatal() -> None:
    assert decode(encode({"VALUE": "a\ud800"})) == {"VALUE": "a\\ud800"}


@pytest.mark.parametrize(
    ("word", "name"),
    [("server", "MCP_SERVER"), ("exit-code", "MCP_EXIT_CODE"), ("x" * 99, "MCP_" + "X" * 60)],
)
def test_a_field_has_a_name_that_the_journal_accepts(word: str, name: str) -> None:
    assert field_name(word) == name
