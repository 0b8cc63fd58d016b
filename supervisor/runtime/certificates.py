"""Whom a run trusts: the system's certificates, and those that an entry names beside them.

Reading the system's takes a tenth of a second, so it is done in a thread and once per change of the files.
"""

import functools
import os
import ssl
import threading

_reading = threading.Lock()


class CannotTrust(Exception):
    """The certificates that the entry names cannot be used."""


def trust(url: str, ca_file: str | None) -> ssl.SSLContext:
    """What a connection to this address is checked against; blocks, so call it in a thread.

    Raises:
        CannotTrust: the file cannot be used.
    """
    if url.lower().startswith("http:"):
        # Nothing leads from here to TLS, so nobody need be trusted.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _reading:
        paths = ssl.get_default_verify_paths()
        return _read(ca_file, tuple(map(_changed_at, (paths.cafile, paths.capath, ca_file))))


def _changed_at(path: str | None) -> float:
    try:
        return 0.0 if path is None else os.stat(path).st_mtime  # noqa: PTH116 - a name, not a path to walk
    except OSError:
        return 0.0


@functools.lru_cache(maxsize=16)
def _read(ca_file: str | None, changed: tuple[float, ...]) -> ssl.SSLContext:  # noqa: ARG001 - part of the key
    import httpx2

    context = httpx2.create_ssl_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as exc:
            raise CannotTrust(f"cannot use caFile {ca_file}: {exc.strerror or exc}") from exc
    return context
