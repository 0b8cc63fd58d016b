"""A relay of bytes in the daemon's place, by the client that is `plain` before the daemon."""

from collections.abc import Mapping
from typing import Any

from bench.channel import request_tail
from bench.contender import INITIALIZE
from bench.load import LONGEST
from bench.plain import Plain


class Relay(Plain):
    """One connection to the relay, which has one server; one call at a time."""

    async def open(self) -> None:
        self._line = self._connected()
        self._line.ask(request_tail("initialize", INITIALIZE))

    async def in_turn(
        self, tool: str, arguments: Mapping[str, Any], times: int, longest: int = LONGEST
    ) -> list[int]:
        tail = request_tail("tools/call", {"name": tool, "arguments": arguments})
        return list(self._taken(tail, times, longest))
