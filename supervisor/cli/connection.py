"""From what the user said to an open connection with the daemon."""

import os
from pathlib import Path

from supervisor.core.paths import control_sockets, private_directory
from supervisor.errors import DaemonUnreachable
from supervisor.surfaces.client import START_IT, SyncClient

PROMPTLY = 10.0
"""Seconds within which the daemon answers what needs no server."""


def connect(explicit: str | None) -> SyncClient:
    """A connection to the chosen socket, or to the first of the usual ones that this user may open.

    Raises:
        DaemonUnreachable: there is none, or nobody listens.
    """
    places = control_sockets(explicit, os.environ, uid=os.getuid())
    if len(places) == 1:
        return SyncClient(places[0])
    for place in places:
        if os.access(place, os.W_OK) and _trusted(place):
            return SyncClient(place)
    raise DaemonUnreachable(
        f"cannot reach the daemon: there is no socket at {' or '.join(places)}; "
        f"{START_IT}, or say with --socket where it is"
    )


def _trusted(place: str) -> bool:
    """Whether nobody else can have put a socket there: any user can make a directory in /tmp first."""
    directory = Path(place).parent
    return str(directory) != private_directory(os.getuid()) or directory.lstat().st_uid == os.getuid()
