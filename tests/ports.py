"""Ports that nobody else is given."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """A port that is ours while the block runs: a server may listen there, and go, and another may come.

    It is bound and not listened at, so that whoever connects is refused; servers may bind it too, as they
    share their address with connections that are about to end (`SO_REUSEADDR`).
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
