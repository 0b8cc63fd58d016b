"""Every event is one line, and a stream that fails costs lines, not the daemon."""

import functools
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.logs import LogFormat, configure, lost_lines, reaches_journal, write_later, write_waiting

MOMENT = 1794942000.1234
NOBODY = "/does/not/exist"


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    yield
    for added in set(root.handlers) - set(handlers):
        added.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


def record(message: str, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("supervisor.fleet", level, __file__, 1, message, args, None)
    made.created = MOMENT
    return made


def written(log_format: LogFormat, *records: logging.LogRecord, journal: str | None = None) -> str:
    stream = io.StringIO()
    configure(log_format, "info", journal=journal, stream=stream)
    for each in records:
        logging.getLogger().handle(each)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("level", "line"),
    [
        (logging.DEBUG, "2026-11-17T19:00:00.123Z DEBUG supervisor.fleet: files: ready after 0.5 s\n"),
        (logging.INFO, "2026-11-17T19:00:00.123Z INFO  supervisor.fleet: files: ready after 0.5 s\n"),
        (logging.WARNING, "2026-11-17T19:00:00.123Z WARN  supervisor.fleet: files: ready after 0.5 s\n"),
        (logging.ERROR, "2026-11-17T19:00:00.123Z ERROR supervisor.fleet: files: ready after 0.5 s\n"),
        (logging.CRITICAL, "2026-11-17T19:00:00.123Z FATAL supervisor.fleet: files: ready after 0.5 s\n"),
    ],
)
def test_a_text_line_has_time_level_name_and_message(level: int, line: str) -> None:
    assert written("text", record("%s: ready after %.1f s", "files", 0.5, level=level)) == line


def test_line_breaks_and_escapes_in_a_message_do_not_break_the_line() -> None:
    assert written("text", record("files: said %s", "a\nb\x1b[31m")).endswith(
        r"files: said a\nb\x1b[31m" + "\n"
    )


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2)],
)
def test_a_journal_that_takes_no_entries_gets_priorities_and_no_time(level: int, priority: int) -> None:
    line = written("text", record("files: ready", level=level), journal=NOBODY)

    assert line == f"<{priority}>supervisor.fleet: files: ready\n"


def test_a_json_line_holds_the_fields_and_never_loses_a_usual_key() -> None:
    event = record("files: ready")
    event.fields = {"server": "files", "path": Path("/x"), "message": "hidden?"}

    assert json.loads(written("json", event)) == {
        "time": "2026-11-17T19:00:00.123Z",
        "level": "info",
        "logger": "supervisor.fleet",
        "message": "files: ready",
        "server": "files",
        "path": "/x",
    }


def test_json_keeps_its_priority_under_the_journal() -> None:
    line = written("json", record("files: ready", level=logging.ERROR), journal=NOBODY)

    assert line.startswith('<3>{"time": ')


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_exception_stays_on_the_line_of_its_event(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure(log_format, logging.INFO, journal=None, stream=stream)

    try:
        int("boom")
    except ValueError:
        logging.getLogger("supervisor").exception("files: run 1 failed")

    [line] = stream.getvalue().splitlines()
    assert "files: run 1 failed" in line
    assert "ValueError: invalid literal" in line


def test_a_message_that_does_not_fit_its_arguments_is_still_shown() -> None:
    assert written("text", record("%d servers", "many")).endswith("%d servers ('many',)\n")


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    configure("text", "warning", journal=None, stream=stream)

    logging.getLogger("supervisor").info("quiet")

    assert stream.getvalue() == ""


def later(message: str) -> None:
    write_later(functools.partial(logging.getLogger("supervisor").info, message))


def messages(stream: io.StringIO) -> list[str]:
    return [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()]


def test_lines_that_wait_are_written_in_order_for_as_long_as_there_is_time() -> None:
    stream = io.StringIO()
    configure("text", "info", journal=None, stream=stream)

    for message in ("first", "second", "third"):
        later(message)

    assert messages(stream) == []
    assert write_waiting(seconds=0)
    assert messages(stream) == ["first"]
    assert not write_waiting()
    assert messages(stream) == ["first", "second", "third"]


def test_a_line_that_does_not_wait_comes_after_those_that_do_in_any_thread() -> None:
    stream = io.StringIO()
    configure("text", "info", journal=None, stream=stream)

    later("first")
    thread = threading.Thread(target=logging.getLogger("supervisor").info, args=["second"])
    thread.start()
    thread.join()
    later("third")
    logging.getLogger("supervisor").info("fourth")

    assert messages(stream) == ["first", "second", "third", "fourth"]


def test_a_line_that_fails_when_it_is_its_turn_costs_no_other() -> None:
    stream = io.StringIO()
    configure("text", "info", journal=None, stream=stream)

    write_later(functools.partial(logging.getLogger("supervisor").info, "first", extra={"message": "taken"}))
    later("second")

    assert not write_waiting()
    assert messages(stream) == ["second"]


def test_to_configure_again_replaces_the_stream() -> None:
    assert written("text", record("first")).count("first") == 1
    assert "first" not in written("text", record("second"))


def test_a_closed_stream_costs_only_the_line() -> None:
    stream = io.StringIO()
    configure("text", "info", journal=None, stream=stream)
    stream.close()

    logging.getLogger("supervisor").info("nobody hears this")

    assert lost_lines() == 1


def test_lines_that_are_written_are_not_lost() -> None:
    written("text", record("first"))

    assert lost_lines() == 0


class Endless:
    def __str__(self) -> str:
        return str(self)


class Slow:
    """Put into words while somebody else writes what waits, and logs something itself."""

    def __init__(self) -> None:
        self.writer = threading.Thread(target=write_waiting, daemon=True)

    def __str__(self) -> str:
        write_later(lambda: logging.getLogger("supervisor").info("waits"))
        self.writer.start()
        self.writer.join(0.05)  # it waits for us, unless it is past that
        logging.getLogger("supervisor").info("inner")
        return "outer"


def test_who_logs_while_a_line_is_put_into_words_waits_for_nobody() -> None:
    stream, slow = io.StringIO(), Slow()
    configure("text", "info", journal=None, stream=stream)
    logger = threading.Thread(target=lambda: logging.getLogger("supervisor").info("%s", slow), daemon=True)

    logger.start()
    logger.join(10)
    slow.writer.join(10)

    assert not logger.is_alive()
    assert [word in stream.getvalue() for word in ("waits", "inner", "outer")] == [True, True, True]


@pytest.mark.parametrize("journal", [None, NOBODY])
def test_a_line_that_has_no_end_is_lost_and_fails_nobody(journal: str | None) -> None:
    assert written("text", record("files: said %s", Endless()), journal=journal) == ""
    assert lost_lines() == 1


def test_a_line_that_neither_journal_nor_stream_takes_is_lost() -> None:
    stream = io.StringIO()
    stream.close()
    configure("text", "info", journal=NOBODY, stream=stream)

    logging.getLogger("supervisor").info("nobody hears this")

    assert lost_lines() == 1


def test_a_broken_pipe_does_not_fail_the_program() -> None:
    program = (
        "import logging, sys; from supervisor.logs import configure\n"
        "configure('text', 'info', journal=None, stream=sys.stderr)\n"
        "sys.stdin.read()\n"
        "for count in range(3): logging.getLogger('x').info('line %d', count)\n"
        "print('alive', flush=True)\n"
    )
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
    ) as child:
        os.close(reading)
        os.close(writing)
        output, _ = child.communicate(timeout=20)

    assert (child.returncode, output) == (0, "alive\n")


def test_the_journals_own_stream_is_recognised(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream, (tmp_path / "other").open("w") as other:
        opened = os.fstat(stream.fileno())
        environ = {"JOURNAL_STREAM": f"{opened.st_dev}:{opened.st_ino}"}

        assert reaches_journal(environ, stream)
        assert not reaches_journal(environ, other)
        assert not reaches_journal({}, stream)


def test_a_stream_without_a_descriptor_is_not_the_journals() -> None:
    assert not reaches_journal({"JOURNAL_STREAM": "1:2"}, io.StringIO())
