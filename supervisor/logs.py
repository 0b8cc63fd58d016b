"""One event per line on stderr, for people and for programs, or one entry with fields in the journal.

Owns the form of a line and the one handler. Decides nothing about what is logged. A line that cannot be
written is lost; the daemon is not. What waits to be written comes before every line that does not.
"""

import contextlib
import json
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, assert_never, cast

from supervisor.core.printable import one_line
from supervisor.journal import Journal, field_name

LogFormat = Literal["text", "json"]

IDENTIFIER = "mcp-supervisor"
_LABELS = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


def about(server: str, **fields: object) -> dict[str, dict[str, object]]:
    """The `extra` of a line that speaks of a server; programs and the journal get it as fields."""
    return {"fields": {"server": server, **fields}}


def configure(log_format: LogFormat, level: str | int, *, journal: str | None, stream: TextIO) -> None:
    """Send every logger's lines to `stream`; what an earlier call set up is replaced.

    `journal` is the address where systemd's journal takes entries, given when it reads the stream too. It
    stamps the time itself, and a line that it gets by the stream has its priority in front.
    """
    form = _formatter(log_format, stamped=journal is None)
    handler = _StreamHandler(stream) if journal is None else _JournalHandler(stream, Journal(journal))
    handler.setFormatter(form)
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)
    logging.raiseExceptions = False  # a full or broken stream costs the line that it refuses


class _Queue:
    """Lines that are put into words and written a little later, in order and before all others."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self.turn = threading.RLock()
        """The handler's lock, too: who logs within a line of his must not wait for who writes these."""
        self._busy = False

    def add(self, write: Callable[[], None]) -> None:
        self._waiting.append(write)

    def write(self, until: float) -> bool:
        with self.turn:
            if self._busy:  # a line of ours, which is written just now
                return False
            self._busy = True
            try:
                while self._waiting:
                    with contextlib.suppress(Exception):  # it costs this line, and none behind it
                        self._waiting.popleft()()
                    if time.monotonic() >= until:
                        break
            finally:
                self._busy = False
            return bool(self._waiting)


_queue = _Queue()


def write_later(write: Callable[[], None]) -> None:
    """Have a line written by `write_waiting`, or when something else is logged, from whatever thread."""
    _queue.add(write)


def write_waiting(*, seconds: float = math.inf) -> bool:
    """Write what waits, for about so long and one line at least; tells whether there is more."""
    return _queue.write(time.monotonic() + seconds)


def lost_lines() -> int:
    """How many lines could not be written since logging was configured."""
    return sum(
        handler.lost for handler in logging.getLogger().handlers if isinstance(handler, _StreamHandler)
    )


def reaches_journal(environ: Mapping[str, str], stream: TextIO) -> bool:
    """Whether `stream` is the one that systemd connected to its journal, and not a redirection of it."""
    try:
        opened = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{opened.st_dev}:{opened.st_ino}"


def _formatter(log_format: LogFormat, *, stamped: bool) -> logging.Formatter:
    match log_format:
        case "text":
            return _Text(stamped=stamped)
        case "json":
            return _Json()
    assert_never(log_format)


class _StreamHandler(logging.StreamHandler[TextIO]):
    """Lines for a stream; those that it does not take are counted."""

    lost = 0

    def createLock(self) -> None:  # noqa: N802 - the library's name
        self.lock = cast("Any", _queue.turn)  # mypy and pyright expect different types

    def handle(self, record: logging.LogRecord) -> bool:
        with _queue.turn:
            write_waiting()
            return super().handle(record)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(record)
        except Exception:  # noqa: BLE001 - the library lets some pass, and whoever logs must not fail
            self.handleError(record)

    def _write(self, record: logging.LogRecord) -> None:
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        self.lost += 1
        super().handleError(record)


class _JournalHandler(_StreamHandler):
    """Entries for the journal; what it does not take goes to the stream, as `sd-daemon(3)` wants it."""

    def __init__(self, stream: TextIO, journal: Journal) -> None:
        super().__init__(stream)
        self._journal = journal

    def _write(self, record: logging.LogRecord) -> None:
        if not self._journal.takes(self._entry(record)):
            super()._write(record)

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_priority(record.levelno)}>{super().format(record)}"

    def close(self) -> None:
        self._journal.close()
        super().close()

    def _entry(self, record: logging.LogRecord) -> Mapping[str, object]:
        return {
            "MESSAGE": super().format(record),
            "PRIORITY": _priority(record.levelno),
            "SYSLOG_IDENTIFIER": IDENTIFIER,
            "LOGGER": record.name,
            "CODE_FILE": record.pathname,
            "CODE_LINE": record.lineno,
            "CODE_FUNC": record.funcName,
            **{field_name(name): value for name, value in _fields(record).items()},
        }


class _Text(logging.Formatter):
    """`2026-11-17T19:00:00.123Z INFO  name: message`."""

    def __init__(self, *, stamped: bool) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{_time(record)} {_LABELS.get(record.levelno, record.levelname):5} " if self._stamped else ""
        exception = _exception(self, record)
        message = _message(record) if exception is None else f"{_message(record)}\n{exception}"
        return f"{stamp}{record.name}: {one_line(message)}"


class _Json(logging.Formatter):
    """One object; what `extra={"fields": {...}}` holds stands beside the usual keys and never hides them."""

    def format(self, record: logging.LogRecord) -> str:
        usual = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        exception = _exception(self, record)
        ending = {} if exception is None else {"exception": exception}
        return json.dumps({**usual, **_fields(record), **usual, **ending}, default=str)


def _priority(level: int) -> int:
    steps = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
    return next((priority for least, priority in steps if level >= least), 7)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # a line that does not fit its arguments is still worth reading
        return f"{record.msg} {record.args!r}"


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    return formatter.formatException(record.exc_info) if record.exc_info else None


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Any = getattr(record, "fields", None)
    return cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}
