"""A head start for servers: their processes are begun before the rest of the daemon is loaded.

Loading it takes as long as a server takes to start, and other processors would have nothing to do meanwhile.
What is begun is only a process: nobody talks to it before its run has taken it. Where anything is in the way,
nothing is begun, and the servers start a moment later in the usual order.
"""

import socket
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec import Struct

from supervisor.core.servers import Launch, Loaded, ServerSpec
from supervisor.core.spec import HttpSettings
from supervisor.runtime import posixspawn
from supervisor.runtime.orphans import Orphans
from supervisor.runtime.process import command_of
from supervisor.runtime.spawner import Spawner
from supervisor.runtime.starts import MOST


class Ground(Struct, frozen=True):
    """What all processes of this daemon stand on."""

    orphans: Orphans
    spawner: Spawner
    clear: bool
    """Whether nothing was seen that a dead daemon has left."""


def prepared(loaded: Loaded, environ: Mapping[str, str], orphans: Orphans, spawner: Spawner) -> Ground:
    """Begin what is going to be started, if nothing is in the way."""
    clear = not orphans.leftovers()
    # Signals are held back here, and the other way of starting lets them through to its thread, ending us.
    if clear and posixspawn.available() and _may_listen(loaded.settings.http):
        for name, launch in islice(_eager(loaded), MOST):
            spawner.begin(orphans.promise(name).on(command_of(launch, environ)), orphans.census)
    return Ground(orphans, spawner, clear)


def _eager(loaded: Loaded) -> Iterator[tuple[str, Launch]]:
    """The servers that are started with the daemon as processes, in the order in which they are."""
    for name, spec in sorted(loaded.servers.items()):
        if (
            isinstance(spec, ServerSpec)
            and isinstance(spec.target, Launch)
            and spec.trouble is None
            and spec.entry.enabled
            and spec.entry.start == "eager"
        ):
            yield name, spec.target


def _may_listen(pages: HttpSettings | bool) -> bool:  # noqa: FBT001 - false is off
    """Whether the port for the pages is sure to be free: a daemon that cannot have it starts nothing."""
    if not isinstance(pages, HttpSettings):
        return True
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            socket.inet_aton(pages.host)  # a name would have to be looked up
            probe.bind((pages.host, pages.port))
            probe.listen()
        except OSError:
            return False
    return True
