"""A new session in place of one that the server forgot: had once, by whoever finds out first, for all.

The greeting belongs to no request. It goes on when the one that met the loss is given up, for a session that
is greeted by half is worse than none: the server would refuse everything in it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from supervisor.core.letterhead import Letterhead
from supervisor.runtime.beside import Company
from supervisor.runtime.wire import NotSent


@dataclass(slots=True, eq=False)
class _Try:
    over: anyio.Event = field(default_factory=anyio.Event)
    problem: str = ""


class Renewal:
    """The renewals of one conversation's session, one at a time."""

    def __init__(
        self,
        head: Letterhead,
        renew: Callable[[], Awaitable[None]],
        farewell: Callable[[str], Awaitable[None]],
    ) -> None:
        self._head, self._renew, self._farewell = head, renew, farewell
        self._try: _Try | None = None

    async def settled(self) -> None:
        """Wait until no renewal is under way."""
        while self._try is not None:
            await self._try.over.wait()

    async def instead_of(self, lost: str, tasks: Company) -> None:
        """Have another session than this one, which the server forgot.

        Raises:
            NotSent: there is none to be had.
        """
        if self._try is None and self._head.session_id == lost:
            self._try = _Try()
            tasks.start_soon(self._greet, self._try, lost)
        if (attempt := self._try) is not None:
            await attempt.over.wait()
            if attempt.problem:
                raise NotSent(attempt.problem)

    async def _greet(self, attempt: _Try, lost: str) -> None:
        try:
            await self._renew()
        except NotSent as exc:
            attempt.problem = str(exc)
        finally:
            self._try = None
            attempt.over.set()
        if self._head.session_id != lost:
            # It may still be known to the server, or to one of several; who gives a session up ends it.
            await self._farewell(lost)
