"""What it takes to read a message, told before it is read, and what is kept of one that would take too much.

A parser of JSON works in one piece, and nobody else is served meanwhile. Its time goes to values and escapes:
64 MiB of text take some 20 ms, 64 MiB of `1,1,1` or `[[[]]]` twenty times as long. So what comes after the
first mebibyte of a message is weighed as it arrives, and one that outweighs our patience is not read. Its
head and tail tell whom it was for.
"""

_FREE = 1024 * 1024
"""Bytes of a message that are not weighed: whatever they are, they take some milliseconds."""
_KEPT = 256
"""Bytes of head and of tail that are kept."""
_PIECE = 64 * 1024

PATIENCE_WITH_SERVERS = 50_000_000
"""Two million values, or six million escapes. A result over `maxResultBytes` is read three times."""
PATIENCE_WITH_CLIENTS = 10_000_000
"""Half a million values beyond the first mebibyte: requests are looked at more closely."""

_TOLLS = ((b",", 24), (b"[", 24), (b"{", 24), (b"\\", 8), (b"\t", 3), (b"\r", 3))
"""Nanoseconds, roughly, for each."""
_BLANKS, _BLANKS_TOLL = b" " * 8, 27
_PLAIN = bytes(range(128)).replace(b"\r", b" ").replace(b"\n", b" ") + b"?" * 128
_GAP = b"\0"
"""No JSON holds this, so what has it in it is no message by accident."""


class Excerpt(bytes):
    """Head and tail of a message that takes too much to be read, with a gap: ASCII, and never JSON."""

    __slots__ = ()


class Scales:
    """Weighs one message after the other, each in the pieces in which it comes."""

    __slots__ = ("_patience", "_seen", "_weight")

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._seen = self._weight = 0

    def add(self, piece: bytes) -> None:
        """The next piece of the message; the larger it is, the less it is exact."""
        self._seen += len(piece)
        if self._seen > _FREE and self._weight <= self._patience:
            self._weight += _weight(piece)

    def taken(self, message: bytes) -> bytes:
        """The whole message, or an excerpt of it; what is added from now on is the next."""
        too_heavy = self._weight > self._patience
        self._seen = self._weight = 0
        return _excerpt(message) if too_heavy else message


def weighed(message: bytes, patience: int) -> bytes:
    """The message, which came in one piece, or an excerpt of it."""
    if len(message) <= _FREE:
        return message
    scales = Scales(patience)
    for at in range(0, len(message), _PIECE):
        scales.add(message[at : at + _PIECE])
    return scales.taken(message)


def _weight(piece: bytes) -> int:
    # To find nothing is quick, to count is not.
    weight = sum(piece.count(what) * toll for what, toll in _TOLLS if piece.find(what) >= 0)
    return weight + piece.count(_BLANKS) * _BLANKS_TOLL


def _excerpt(message: bytes) -> Excerpt:
    return Excerpt(_GAP.join((message[:_KEPT], message[-_KEPT:])).translate(_PLAIN))
