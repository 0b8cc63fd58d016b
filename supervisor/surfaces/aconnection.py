"""A connection to the control socket on asyncio or trio: written without waiting, read by one task."""

import socket
from contextlib import suppress
from typing import Never, Self

import anyio

from supervisor.surfaces.exchange import (
    CHUNK,
    ConnectionEnded,
    Incoming,
    Message,
    find_socket,
    not_sent,
    unreachable,
)

CONNECT_PAUSE = 0.01
"""Seconds between two tries on a daemon whose queue of connections is full: nothing tells when it is not."""


class Connection:
    """A socket that is written without waiting and read by one task."""

    def __init__(self, opened: socket.socket, path: str) -> None:
        self._socket = opened
        self._incoming = Incoming(path)
        self._unsent = bytearray()
        self._behind = anyio.Event()

    @classmethod
    async def open(cls, path: str | None, timeout: float) -> Self:  # noqa: ASYNC109 - a bound of its own
        """Connect within `timeout` seconds.

        Raises:
            DaemonUnreachable: it cannot be done.
        """
        place = find_socket(path)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.settimeout(0)
        try:
            await _connect(opened, place, deadline=anyio.current_time() + timeout)
        except OSError as error:
            opened.close()
            raise unreachable(place, error) from None
        except BaseException:
            opened.close()
            raise
        return cls(opened, place)

    def send(self, method: str, line: bytes) -> None:
        """Send the line, now or as soon as the daemon takes it.

        Raises:
            DaemonUnreachable: the daemon takes nothing any more.
        """
        self._unsent += line
        if len(self._unsent) > len(line):
            return  # the writer is at work, and the order must hold
        try:
            self._send_some()
        except OSError as error:
            self._unsent.clear()
            raise not_sent(method, error) from None
        if self._unsent:
            self._behind.set()

    async def write(self) -> Never:
        """Send what the socket did not take at once."""
        while True:
            await self._behind.wait()
            self._behind = anyio.Event()
            with suppress(OSError, anyio.ClosedResourceError):  # whoever reads hears of the end
                while self._unsent:
                    await anyio.wait_writable(self._socket)
                    self._send_some()

    def _send_some(self) -> None:
        with suppress(BlockingIOError):
            del self._unsent[: self._socket.send(self._unsent)]

    async def receive(self) -> list[Message]:
        """What the daemon sends next.

        Raises:
            ConnectionEnded: nothing more will come.
            DaemonUnreachable: who sends is not the daemon.
        """
        try:
            await anyio.wait_readable(self._socket)
            chunk = self._socket.recv(CHUNK)
        except BlockingIOError:
            return []
        except anyio.ClosedResourceError:
            raise ConnectionEnded("this client is closed") from None
        except OSError as error:
            raise ConnectionEnded(f"the connection to the daemon broke ({error.strerror})") from None
        if not chunk:
            raise ConnectionEnded("the daemon closed the connection")
        return self._incoming.feed(chunk)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()


async def _connect(opened: socket.socket, path: str, *, deadline: float) -> None:
    while True:
        try:
            opened.connect(path)
        except BlockingIOError:
            if anyio.current_time() >= deadline:
                raise
        else:
            return
        await anyio.sleep(CONNECT_PAUSE)
