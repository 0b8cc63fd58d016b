"""Run the demo server on standard input and output. EOF, SIGTERM and SIGINT end it, with status 0."""

import signal
import sys
from types import FrameType
from typing import NoReturn

from supervisor.demo.server import Server


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    server = Server(sys.stdout.fileno())
    server.serve(sys.stdin.buffer)


if __name__ == "__main__":
    main()
