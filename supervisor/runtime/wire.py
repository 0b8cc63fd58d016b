"""Raw JSON-RPC to one server: numbers, pending requests, answers.

`Wire` is what a session speaks over, whatever carries it. A wire gives every request a number of its own, so
nothing that a client chose can reach another client's call, and hands what nobody asked for (requests of the
server, notifications, noise) to its owner. `PipeWire` turns chunks from a child into answers. It knows no
MCP: era, listing and stamping are the session's. The other wire is in `httpwire`.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from supervisor.core.framing import Framing, LineFramer, TooLong, Unframed, framed, framer
from supervisor.core.jsonrpc import (
    NULL,
    TOO_DEEP,
    TOO_MUCH,
    UNREADABLE,
    Message,
    decode_message,
    notification_line,
    request_line,
    rescued_message,
)
from supervisor.core.labour import PATIENCE_WITH_SERVERS
from supervisor.core.phases import End
from supervisor.errors import BadAnswer, SupervisorError
from supervisor.runtime.outlet import gathered
from supervisor.runtime.wakefulness import Wakefulness

logger = logging.getLogger(__name__)

_NEITHER = "the server answered with neither result nor error"
_TOO_DEEP = "the server's answer nests too deep to be read"
_TOO_MUCH = "the server's answer holds too many values or escapes to be read; ask it for less at a time"
_NO_ERROR = "the server answered with an error that is not one: "
_SHOWN = 80
"""Bytes of it that are shown."""
_NOT_UTF8 = "the server answered with bytes that are not UTF-8"
_HEAD = b'{"jsonrpc":"2.0","id":'
_CALL = b',"method":"tools/call","params":{"name":'
_UNREAD_ANSWERS = 256 * 1024
"""Bytes untaken by a server above which what it asks is not answered.

A flood of its own must not use up the room that its callers' requests have.
"""
_FORGOTTEN = 256
"""Requests whose late answers are expected, and no noise."""
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class Waiting(Protocol):
    """Whoever asked; exactly one of these is called, once, unless it was forgotten before."""

    def answered(self, result: msgspec.Raw) -> None: ...

    def refused(self, error: msgspec.Raw) -> None: ...

    def unusable(self, problem: SupervisorError) -> None:
        """There was an answer, and it cannot be passed on."""
        ...

    def lost(self, end: End) -> None: ...

    def not_sent(self, detail: str, retry_after: float | None = None) -> None:
        """Nothing reached the server, or it refused to look; it may be asked again after so many seconds."""
        ...


class Output(Protocol):
    """Where a wire writes."""

    @property
    def write(self) -> Callable[[bytes], bool]:
        """Writes a message; false, and nothing is written, when it is closed or too much is untaken."""
        ...

    @property
    def untaken(self) -> int:
        """Bytes that were written and that the server has not taken yet."""
        ...

    @property
    def closed(self) -> bool: ...


def _takes_nothing(_line: bytes) -> bool:
    """Stand for a server that is not there, or not any more."""
    return False


class NotSent(Exception):
    """The server is gone, or does not take what is written to it; nothing was sent."""

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
        """Seconds until the server wants to be asked again, where it said so."""


class Wire(Protocol):
    """The requests under way with one server."""

    @property
    def alive(self) -> bool:
        """Whether the server can still be asked."""
        ...

    def request(self, method: str, params: bytes, waiting: Waiting) -> int:
        """Send a request and return its number.

        Raises:
            NotSent: the server is gone, or takes nothing.
        """
        ...

    def call(self, tool_json: bytes, arguments: msgspec.Raw, extra: bytes, waiting: Waiting) -> int:
        """Send `tools/call`, as `request` does; `extra` is more of its params, with a comma before."""
        ...

    def notify(self, method: str, params: bytes) -> None: ...

    def answer(self, line: bytes) -> None:
        """Send an answer to a request of the server's."""
        ...

    def has_left(self, number: int) -> bool:
        """Whether that request may have reached the server."""
        ...

    def forget(self, number: int) -> bool:
        """Do not wait for that answer any more; tells whether it was still awaited."""
        ...


class PipeWire:
    """The requests under way with one child."""

    def __init__(
        self,
        *,
        framing: Framing,
        limit: int,
        on_message: Callable[[Message], None],
        on_noise: Callable[[bytes], None],
        on_broken: Callable[[str], None],
        on_first_word: Callable[[], None] = lambda: None,
    ) -> None:
        self._framing: Framing = framing
        self._framer = framer(framing, limit, PATIENCE_WITH_SERVERS)
        self._lines = self._framer if isinstance(self._framer, LineFramer) else None
        self._limit = limit
        self._on_message, self._on_noise, self._on_broken = on_message, on_noise, on_broken
        self._on_first_word = on_first_word
        self.heard_at = 0.0
        """When the server last said anything, by the loop's clock; 0 before that."""
        self._output: Output | None = None
        self._write: Callable[[bytes], bool] = _takes_nothing
        self._expect: Callable[[float], None] = _told_to_nobody
        self._came: Callable[[float], None] = _told_to_nobody
        self._expect_nothing: Callable[[float], None] = _told_to_nobody
        self._last_call, self._alone = 0, False
        """Its number, and whether the one before it was over when it was sent."""
        self._waiting: dict[int, Waiting] = {}
        self._forgotten: deque[int] = deque(maxlen=_FORGOTTEN)
        self._number = 0
        self.sent = 0
        """Bytes of the requests that were sent, calls aside."""
        self._idle_talk = False
        """Whether the chunk at hand had something in it that nobody asked for."""
        self._lost: End | None = None
        self.alive = True
        """Whether the server can still be asked."""

    @property
    def asked(self) -> int:
        """How many answers are awaited."""
        return len(self._waiting)

    def attach(self, output: Output, awake: Wakefulness) -> None:
        """Begin to write there, and wait awake for quick answers to one call at a time."""
        self._output, self._write = output, output.write
        self._expect, self._came, self._expect_nothing = awake.expect, awake.came, awake.expect_nothing

    def request(self, method: str, params: bytes, waiting: Waiting) -> int:
        """Send a request and return its number.

        Raises:
            NotSent: the server is gone, or leaves too much untaken.
        """
        self._number = number = self._number + 1
        self._waiting[number] = waiting
        line = framed(self._framing, request_line(number, method, params))
        if not self._write(line):
            raise self._not_sent(number)
        self.sent += len(line)
        return number

    def call(self, tool_json: bytes, arguments: msgspec.Raw, extra: bytes, waiting: Waiting) -> int:
        """Send `tools/call`, as `request` does."""
        self._number = number = self._number + 1
        self._waiting[number] = waiting
        # Joined, which takes half the time of a format with as many parts.
        line = b"".join(
            (_HEAD, b"%d" % number, _CALL, tool_json, b',"arguments":', arguments, extra, b"}}\n")
        )
        if not self._write(line if self._lines is not None else framed(self._framing, line[:-1])):
            raise self._not_sent(number)
        if self._last_call not in self._waiting:
            self._alone = True
            self._expect(time.monotonic())
        elif self._alone:
            self._alone = False
            self._expect_nothing(time.monotonic())
        self._last_call = number
        return number

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification; a server that is gone or takes nothing does not get it."""
        self._write(framed(self._framing, notification_line(method, params)))

    def answer(self, line: bytes) -> None:
        """Send an answer to a request of the server's, unless it leaves too many of them unread."""
        if self._output is not None and self._output.untaken <= _UNREAD_ANSWERS:
            self._write(framed(self._framing, line))

    def has_left(self, number: int) -> bool:  # noqa: ARG002 - what was written is out of our hands
        return True

    def forget(self, number: int) -> bool:
        """Do not wait for that answer any more; tells whether it was still awaited."""
        if self._waiting.pop(number, None) is None:
            return False
        self._forgotten.append(number)
        return True

    def close(self, end: End) -> None:
        """The server is gone: send nothing more. What it has said by then may still come."""
        if self._lost is None:
            self._lost, self.alive, self._write = end, False, _takes_nothing

    def lose(self, end: End) -> None:
        """The server is gone: tell everyone who waits, and whoever asks from now on."""
        self.close(end)
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.lost(end)

    def let_go(self) -> None:
        """Nothing more will come: forget who is to be told, as they hold us."""
        self._on_message = self._on_noise = self._on_broken = _told_to_nobody
        self._on_first_word = _told_nothing

    def feed(self, chunk: bytes) -> bool:
        """Take what the server wrote; tells whether there was anything in it that nobody asked for."""
        if not self.heard_at:
            self._on_first_word()
        self.heard_at = now = time.monotonic()
        self._came(now)
        lines, end = self._lines, len(chunk) - 1
        try:
            if lines is not None and not lines.open and chunk.find(b"\n") == end and 0 < end <= self._limit:
                self._receive(chunk)  # one whole line, as most chunks are
            else:
                self._take_apart(chunk)
        except Exception as exc:
            # The boundary: whatever a server wrote, it costs that server's run, and the reason is true.
            logger.exception("a server wrote what nobody thought of")
            self._on_broken(f"wrote what cannot be understood ({type(exc).__name__})")
        idle, self._idle_talk = self._idle_talk, False
        return idle

    def _take_apart(self, chunk: bytes) -> None:
        try:
            lines = self._framer.feed(chunk)
        except Unframed as exc:
            lines = exc.before
            hint = " (maxLineBytes)" if isinstance(exc, TooLong) else ""
            self._on_broken(f"cannot be followed: {exc}{hint}")
        if self._lines is None:
            lines = [one_line(line) for line in lines]  # with a length before it a message may span lines
        if len(lines) == 1 and lines[0]:
            self._receive(lines[0])
        else:
            with gathered():
                for line in filter(None, lines):
                    self._receive(line)

    def _receive(self, line: bytes) -> None:
        message: Message | None
        try:
            message = decode_message(line)
        except UNREADABLE as problem:
            message = rescued_message(line, problem)
        if message is None:
            self._noise(line)
        elif message.method is not None:
            self._idle_talk = True
            if is_text(line):
                self._on_message(message)
            else:
                self._noise(line)
        elif type(message.id) is int and (waiting := self._waiting.pop(message.id, None)) is not None:
            if message.result and line.isascii():
                waiting.answered(message.result)
            else:
                deliver(line, message, waiting)
        elif message.id not in self._forgotten:
            self._noise(line)

    def _noise(self, line: bytes) -> None:
        self._idle_talk = True
        self._on_noise(line.rstrip(b"\n"))

    def _not_sent(self, number: int) -> NotSent:
        """Why a request could not be written, which nobody waits for any more."""
        del self._waiting[number]
        if self._lost is not None:
            return NotSent(f"it {self._lost.detail}")
        if self._output is None or self._output.closed:
            return NotSent("its standard input is closed")
        return NotSent("it does not read its standard input")


def _told_to_nobody(_what: object) -> None:
    """What comes when all is over."""


def _told_nothing() -> None:
    """And when it begins."""


def deliver(line: bytes, message: Message, waiting: Waiting) -> None:
    """Hand an answer, which came in this line, to whoever waits for it."""
    if not is_text(line):
        waiting.unusable(BadAnswer(_NOT_UTF8))
    elif message.result:
        waiting.answered(message.result)
    elif problem := _problem_of(message.error):
        waiting.unusable(BadAnswer(problem))
    else:
        waiting.refused(message.error)


def _problem_of(error: msgspec.Raw) -> str | None:
    """Why the error of an answer cannot be passed on as one."""
    if error is TOO_DEEP:
        return _TOO_DEEP
    if error is TOO_MUCH:
        return _TOO_MUCH
    start = bytes(memoryview(error)[:_SHOWN])
    if start in (b"", NULL):
        return _NEITHER
    return None if start.startswith(b"{") else _NO_ERROR + start.decode(errors="replace")


def one_line(text: bytes) -> bytes:
    """A message without line breaks: between tokens a blank is as good, and inside them there are none."""
    return text.translate(_LINE_BREAKS) if b"\n" in text or b"\r" in text else text


def is_text(line: bytes) -> bool:
    """Whether a line may be passed on; payloads are not looked into, so nobody else would notice."""
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False
