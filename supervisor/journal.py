"""Entries for systemd's journal, in its native protocol: a datagram of named fields for each.

Owns the form of an entry and the socket that it leaves by. It does not decide what is logged, never waits
and never fails: it says whether the journal took an entry, and whoever asked writes a line when it did not.
"""

import re
import socket
import struct
from collections.abc import Mapping

ADDRESS = "/run/systemd/journal/socket"
_UNFIT = re.compile("[^A-Z0-9_]")
_LONGEST_NAME = 64


def field_name(word: str) -> str:
    """A word of ours as the name of a field: `server` is `MCP_SERVER`."""
    return _UNFIT.sub("_", f"MCP_{word.upper()}")[:_LONGEST_NAME]


def encode(fields: Mapping[str, object]) -> bytes:
    """The datagram that holds these fields."""
    return b"".join(_encode(name.encode(), str(value)) for name, value in fields.items())


def _encode(name: bytes, value: str) -> bytes:
    content = value.encode(errors="backslashreplace")
    if b"\n" not in content:
        return b"%s=%s\n" % (name, content)
    return b"%s\n%s%s\n" % (name, struct.pack("<Q", len(content)), content)


class Journal:
    """The way to the journal that listens at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)  # noqa: FBT003 - the socket's own signature

    def takes(self, fields: Mapping[str, object]) -> bool:
        """Send an entry; false when nobody listens, the journal is behind, or the entry is too long."""
        try:
            # By its address each time, so that a journal that was restarted is found again.
            self._socket.sendto(encode(fields), self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
