"""Where the control socket is.

Owns the order in which places are tried and the limit on their length. Looks at no file: whether
something is there is for the caller to find out.
"""

from collections.abc import Iterator, Mapping

from supervisor.errors import BadConfig

SYSTEM_SOCKET = "/run/mcp-supervisor/control.sock"
LONGEST = 107
"""Bytes of a Unix socket's path on Linux, the final zero byte not counted."""


def control_socket(
    explicit: str | None, environ: Mapping[str, str], *, uid: int, configured: str | None = None
) -> str:
    """The place where a daemon listens.

    Raises:
        BadConfig: no socket can have that path.
    """
    return control_sockets(explicit, environ, uid=uid, configured=configured)[0]


def control_sockets(
    explicit: str | None, environ: Mapping[str, str], *, uid: int, configured: str | None = None
) -> tuple[str, ...]:
    """The places where a client looks for a daemon, best first; a place that somebody chose is the only one.

    Raises:
        BadConfig: no socket can have the path that was chosen, or the one that would be used.
    """
    chosen = _chosen(explicit, environ, configured)
    places = _defaults(environ, uid=uid) if chosen is None else iter((chosen,))
    return tuple(_checked(place) for place in places)


def private_directory(uid: int) -> str:
    """The directory of a user without a session. Anybody can make it first, so its owner must be checked."""
    return f"/tmp/mcp-supervisor-{uid}"  # noqa: S108 - the owner is checked by who opens it


def _chosen(explicit: str | None, environ: Mapping[str, str], configured: str | None) -> str | None:
    if explicit is not None:
        return explicit
    return environ.get("MCP_SUPERVISOR_SOCKET") or configured


def _defaults(environ: Mapping[str, str], *, uid: int) -> Iterator[str]:
    if runtime_directory := environ.get("RUNTIME_DIRECTORY", "").split(":")[0]:
        yield f"{runtime_directory}/control.sock"
    if session_directory := environ.get("XDG_RUNTIME_DIR"):
        yield f"{session_directory}/mcp-supervisor/control.sock"
    if uid != 0:
        yield f"{private_directory(uid)}/control.sock"
    yield SYSTEM_SOCKET


def _checked(path: str) -> str:
    if not path or "\0" in path:
        raise BadConfig(f"cannot use {path!r} as the control socket; give --socket the path of a file")
    length = len(path.encode("utf-8", "surrogateescape"))
    if length > LONGEST:
        raise BadConfig(
            f"cannot use {path!r} as the control socket: it has {length} bytes, the system allows {LONGEST}; "
            "choose a shorter path with --socket or MCP_SUPERVISOR_SOCKET"
        )
    return path
