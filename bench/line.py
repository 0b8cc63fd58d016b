"""A blocking connection to the daemon, as a script has it: lines out, lines in, and no event loop."""

import socket
import struct

from bench.channel import LOST, Answer, read_answer
from bench.load import CHUNK, CallFailed

_LONGEST_SILENCE = struct.pack("ll", 10, 0)
"""Ten seconds, as the kernel wants them; with a timeout of Python's own each send and receive would poll."""


class Line:
    """One connection: requests out, answers in."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LONGEST_SILENCE)
        self._socket.connect(path)
        self._received = b""
        self._last_id = 0

    def send(self, *tails: bytes) -> list[int]:
        """Send these requests in one piece; their ids."""
        first = self._last_id + 1
        self._last_id += len(tails)
        ids = range(first, first + len(tails))
        numbered = [b'{"jsonrpc":"2.0","id":%d%b' % pair for pair in zip(ids, tails, strict=True)]
        self._socket.sendall(b"".join(numbered))
        return list(ids)

    def answers(self) -> list[Answer]:
        """The answers that have come; waits for at least one.

        Raises:
            CallFailed: the connection ended.
            TimeoutError: nothing came.
        """
        parts = [self._received]
        while b"\n" not in parts[-1]:
            parts.append(self._chunk())
        *lines, self._received = b"".join(parts).split(b"\n")
        return [read_answer(line) for line in lines]

    def _chunk(self) -> bytes:
        try:
            chunk = self._socket.recv(CHUNK)
        except BlockingIOError:
            raise TimeoutError("nothing came") from None
        if not chunk:
            raise CallFailed(LOST)
        return chunk

    def ask(self, tail: bytes) -> Answer:
        """One request and its answer, while no other is outstanding.

        Raises:
            CallFailed: it was answered with an error, or the connection ended.
        """
        self.send(tail)
        (answer,) = self.answers()
        return good(answer)


def good(answer: Answer) -> Answer:
    """The answer, if it is no error.

    Raises:
        CallFailed: it is one.
    """
    if answer.error:
        raise CallFailed(bytes(answer.error).decode())
    return answer
