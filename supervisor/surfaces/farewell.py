"""How connections end: after our last word, and by clients that leave without one.

A client in the middle of a long line hears nothing before it has written it, and when we just hang up, it
hears an error of the system in place of our word. So we end our side, take what still comes without a look,
and hang up when the client does; time and bytes of that are bounded.
"""

import asyncio
import contextlib
import select

LINGER = 1.0
"""Seconds in which the client may go on writing."""
MOST_BYTES = 64 * 1024 * 1024
"""What is taken in that time."""
MOST_FAREWELLS = 64
"""Connections that end like this at once; one more is just hung up on."""
LOOK = 0.05
"""Seconds between two looks at a client that stopped writing."""


class Farewell(asyncio.Protocol):
    """Owns a transport to which nothing more is written; `among` are all that end like this."""

    def __init__(self, transport: asyncio.Transport, among: "set[Farewell]", *, patience: float) -> None:
        self._transport, self._among, self._taken = transport, among, 0
        loop = asyncio.get_running_loop()
        self._timers = (loop.call_later(LINGER, self.close), loop.call_later(patience, transport.abort))
        among.add(self)
        transport.set_protocol(self)
        with contextlib.suppress(OSError):  # the client is gone
            transport.write_eof()

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        if self._taken > MOST_BYTES:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self._among.discard(self)
        for timer in self._timers:
            timer.cancel()

    def close(self) -> None:
        """Hang up, when everything written is read."""
        self._transport.close()


def stays(transport: asyncio.Transport) -> bool:
    """Whether a client that stopped writing is still there; then it is looked after until it is not.

    No loop tells when it leaves altogether.
    """
    if transport.is_closing():
        return False
    if _is_gone(transport.get_extra_info("socket").fileno()):
        transport.abort()
        return False
    asyncio.get_running_loop().call_later(LOOK, stays, transport)
    return True


def _is_gone(descriptor: int) -> bool:
    """Whether the other end is closed altogether, and not only for writing."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
