"""Compressed bytes in, pieces of bounded size out.

A few kilobytes can unfold to gigabytes. Whoever counts the pieces can stop at any of them, and no more than
one of them is ever held.
"""

import zlib
from collections.abc import Iterator

PIECE = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class NotGzip(ValueError):
    """The bytes are not what they were announced to be."""


class Gunzip:
    """Unfolds one gzip stream as it comes."""

    __slots__ = ("_inflate",)

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP)

    @property
    def ended(self) -> bool:
        """Whether the stream is over, so that nothing more can come of it."""
        return self._inflate.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What `chunk` unfolds to, in pieces of at most `PIECE` bytes; what follows the end is left alone.

        Raises:
            NotGzip: the stream is damaged.
        """
        while chunk and not self.ended:
            try:
                piece = self._inflate.decompress(chunk, PIECE)
            except zlib.error as exc:
                raise NotGzip(str(exc)) from exc
            chunk = self._inflate.unconsumed_tail
            if piece:
                yield piece
        yield from self._rest()

    def _rest(self) -> Iterator[bytes]:
        """What the decoder still holds although it has taken in everything."""
        while not self.ended and (piece := self._inflate.decompress(b"", PIECE)):
            yield piece
