"""How many servers may be in the first moments of their start at once.

Hundreds of servers that are started together would all be slow. So only some start at a time, and the next
begins when one of them answers or ends. A slow one holds its place for a second at most.

Those that have failed again and again go one by one, with a pause in between: a hundred that crash at every
start must not take the processors from those that work.
"""

import math

import anyio

MOST = 64
HOLD = 1.0
"""Seconds after which a server that is still starting makes room for the next."""

PACE = 0.5
"""Seconds between the starts of two servers that have failed again and again."""
LONGEST = 60.0
"""Seconds that such a server waits at most: longer, and its failures would be too far apart to be a loop."""


class Turn:
    """The right to start one server, until it is given back."""

    def __init__(self, starts: "Starts") -> None:
        self._starts = starts

    def release(self) -> None:
        """Let the next one start; once is enough."""
        self._starts.give_back(self)


class Starts:
    """Hands out turns, in the order of asking."""

    def __init__(self, most: int = MOST, hold: float = HOLD, pace: float = PACE) -> None:
        self._most, self._hold, self._pace = most, hold, pace
        self._held: dict[Turn, float] = {}
        """Until when each turn that was not given back is held, the oldest first."""
        self._given_back = anyio.Event()
        self._line, self._slow_line = anyio.Lock(fast_acquire=True), anyio.Lock(fast_acquire=True)
        self._paused_until = -math.inf

    async def turn(self) -> Turn:
        """Wait for a turn."""
        async with self._line:
            await self._room()
            return self.turn_at_once()

    def turn_at_once(self) -> Turn:
        """The turn of a server whose process is there already."""
        turn = Turn(self)
        self._held[turn] = anyio.current_time() + self._hold
        return turn

    def give_back(self, turn: Turn) -> None:
        if self._held.pop(turn, None) is not None:
            self._given_back.set()

    async def doubt(self) -> None:
        """Wait as a doubtful server does before it asks for a turn: until those like it have had theirs."""
        with anyio.move_on_after(LONGEST):
            async with self._slow_line:
                await anyio.sleep_until(self._paused_until)
                self._paused_until = anyio.current_time() + self._pace

    async def _room(self) -> None:
        """Wait until a turn is given back, or was held for long enough."""
        while len(self._held) >= self._most:
            oldest, until = next(iter(self._held.items()))
            self._given_back = anyio.Event()
            with anyio.move_on_after(until - anyio.current_time()):
                await self._given_back.wait()
            if anyio.current_time() >= until:
                self._held.pop(oldest, None)
