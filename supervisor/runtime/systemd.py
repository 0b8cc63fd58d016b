"""What systemd and the daemon tell each other: readiness, status, the watchdog, and sockets opened for us.

Owns the variables that systemd sets for a service and takes them out of the environment, so that nobody
else acts on them. Without systemd nothing is sent and nothing is inherited; the rest of the daemon does not
notice. It never decides when something is so: it is told.
"""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Generator, MutableMapping

import anyio
from msgspec import Struct

logger = logging.getLogger(__name__)

_FIRST_DESCRIPTOR = 3
_VARIABLES = (
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"),
)
_MICROSECONDS = 1_000_000
_EXTENSION = 10.0
"""Seconds that are asked for at a time while a start or a reload lasts, however long systemd would wait."""


class Given(Struct, frozen=True):
    """What systemd has handed to this process."""

    notify_address: str | None = None
    watchdog: float | None = None
    """Seconds within which systemd wants to hear of us, again and again."""
    sockets: tuple[socket.socket, ...] = ()
    """Opened for us; whoever takes one closes it."""


def take(environ: MutableMapping[str, str], *, pid: int) -> Given:
    """What systemd has handed to the process `pid`; its variables are gone afterwards."""
    found = {name: environ.pop(name) for name in _VARIABLES if name in environ}
    watched = found.get("WATCHDOG_PID", str(pid)) == str(pid)
    microseconds = _number(found.get("WATCHDOG_USEC")) if watched else 0
    count = _number(found.get("LISTEN_FDS")) if found.get("LISTEN_PID") == str(pid) else 0
    return Given(
        notify_address=found.get("NOTIFY_SOCKET") or None,
        watchdog=microseconds / _MICROSECONDS or None,
        sockets=tuple(_inherited(_FIRST_DESCRIPTOR + number) for number in range(count)),
    )


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def _inherited(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the system's own signature
    return socket.socket(fileno=descriptor)


def control_listener(sockets: tuple[socket.socket, ...]) -> socket.socket | None:
    """The Unix stream socket among those that were handed to us; the others are closed, and that is said.

    It has to be a file: its owner, group and mode are all that keeps strangers out.
    """
    chosen = None
    for each in sockets:
        if chosen is None and _is_stream_file(each):
            chosen = each
        else:
            logger.warning("closing a socket from systemd that is of no use here: %s", each.getsockname())
            each.close()
    return chosen


def _is_stream_file(given: socket.socket) -> bool:
    """Whether it is a Unix stream socket, and not one in the abstract namespace, whose name is bytes."""
    is_stream = given.family == socket.AF_UNIX and given.type == socket.SOCK_STREAM
    return is_stream and isinstance(given.getsockname(), str)


class Notifier:
    """Tells systemd how we are. Without an address it tells nobody."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._ready = False
        self._reloads = 0
        self._status = ""

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return self._address is not None

    def ready(self) -> None:
        self._ready = True
        self._send("READY=1")

    def status(self, line: str) -> None:
        """Show this line in `systemctl status`; the same line again is not sent."""
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    @contextlib.contextmanager
    def reloading(self) -> Generator[None]:
        """Be seen as reloading; several at once are one. Before we are ready there is nothing to see."""
        if self._ready and self._reloads == 0:
            self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            self.extend()
        self._reloads += 1
        try:
            yield
        finally:
            self._reloads -= 1
            if self._ready and self._reloads == 0:
                self._send("READY=1")

    @property
    def is_reloading(self) -> bool:
        return self._ready and self._reloads > 0

    def stopping(self, within: float) -> None:
        """Be seen as stopping, which may take so many seconds."""
        self._ready = False
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round(within * _MICROSECONDS)}")

    def extend(self) -> None:
        """Ask for more time to start or to reload."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(_EXTENSION * _MICROSECONDS)}")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        # An abstract address is written with an @ in place of its first byte, which is zero.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)  # noqa: FBT003 - the socket's own signature
                sender.connect(address)
                sender.sendall(message.encode())
        except OSError as exc:
            logger.warning("cannot tell systemd %s: %s", message.partition("\n")[0], exc.strerror)


async def feed_watchdog(notifier: Notifier, period: float, prove: Callable[[], Awaitable[object]]) -> None:
    """Feed the watchdog until cancelled, three times in each period, and only after `prove` has returned.

    A proof that takes a whole period is given up and said in the log: systemd then ends us.
    """
    while True:
        with anyio.move_on_after(period) as patience:
            await prove()
        if patience.cancelled_caught:
            logger.error("not feeding the watchdog: no progress was seen for %g s", period)
        else:
            notifier.alive()
        await anyio.sleep(period / 3)


async def lengthen_reloads(notifier: Notifier) -> None:
    """Ask systemd for more time as long as a reload lasts, until cancelled."""
    while True:
        await anyio.sleep(_EXTENSION / 2)
        if notifier.is_reloading:
            notifier.extend()


async def patiently(notifier: Notifier, wait: Callable[[], Awaitable[object]]) -> None:
    """Wait, and ask systemd for more time as long as that takes."""

    async def ask() -> None:
        while True:
            notifier.extend()
            await anyio.sleep(_EXTENSION / 2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await wait()
        tasks.cancel_scope.cancel()
