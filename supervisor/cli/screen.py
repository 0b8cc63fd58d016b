"""Where a view that refreshes itself is shown: on a terminal in place, elsewhere one after the other.

A terminal is left as it was found, however the view ends.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, Protocol

from supervisor.cli.render import screen_height

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""The second page of the terminal, without a cursor, and long lines cut."""
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
LEAVING_KEYS = b"qQ\x04"


class Screen(Protocol):
    def show(self, lines: Sequence[str]) -> None: ...

    def wait(self, seconds: float) -> bool:
        """Let time pass; whether the user wants to leave."""
        ...


class Plain:
    """Views one below the other, an empty line between them."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, lines: Sequence[str]) -> None:
        print(*(["", *lines] if self._shown else lines), sep="\n", flush=True)
        self._shown = True

    def wait(self, seconds: float) -> bool:
        select.select([], [], [], seconds)
        return False


class Terminal:
    """Each view over the one before."""

    def show(self, lines: Sequence[str]) -> None:
        body = "\n".join(f"{line}{CLEAR_LINE}" for line in lines[: screen_height()])
        print(f"{HOME}{body}{CLEAR_BELOW}", end="", flush=True)

    def wait(self, seconds: float) -> bool:
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        if not readable:
            return False
        typed = os.read(sys.stdin.fileno(), 100)
        return not typed or any(key in LEAVING_KEYS for key in typed)


def is_terminal() -> bool:
    """Whether a person looks and can type."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def terminal() -> Generator[Screen]:
    """The whole terminal, keys unbuffered; given back at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handlers = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(descriptor)
        print(ENTER, end="", flush=True)
        yield Terminal()
    finally:
        print(LEAVE, end="", flush=True)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End through the `finally` above, with what a shell reports for the signal."""
    raise SystemExit(128 + number)
