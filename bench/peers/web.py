"""What peers behind HTTP share: waiting until all tools are listed, and load over a pool of connections."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from bench.callbacks import SendingContender
from bench.channel import LOST
from bench.contender import Fleet
from bench.load import CallFailed, Done, Send
from bench.peers.http import Answer, Pool
from bench.peers.polling import once_ready

_OK = 200


class WebPeer(SendingContender):
    """One gateway behind a port; a subclass says what its requests and answers look like."""

    faults: tuple[bytes, ...]
    """What an answer holds that is an error although its status is 200."""
    lists_all = False
    """Whether the listing of one server has the tools of all."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._pool = Pool(fleet.port)

    @abstractmethod
    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
        """The request that makes that call."""

    @abstractmethod
    def listing(self, server: int) -> bytes:
        """The request that lists the tools of that server."""

    @abstractmethod
    def tools_in(self, body: bytes) -> int:
        """How many tools a listing has."""

    @abstractmethod
    def text_in(self, body: bytes) -> str:
        """What a tool said."""

    def fresh(self, content: bytes) -> bytes:
        """The request as it is sent this time."""
        return content

    async def open(self) -> None:
        await once_ready(self._listed, range(1 if self.lists_all else self._fleet.servers))

    async def _listed(self, server: int) -> bool:
        """Whether its listing can be had and is whole."""
        answer = await self._pool.ask(self.fresh(self.listing(server)))
        if answer is None or self._reason(answer) is not None:
            return False
        listed = self._fleet.servers if self.lists_all else 1
        return self.tools_in(answer.body) == self._fleet.tools * listed

    async def close(self) -> None:
        """Nothing: the gateway is ended by whoever started it."""

    def sender(self, server: int, tool: str, arguments: Mapping[str, Any]) -> Send:
        return self._sender(self.call(server, tool, arguments))

    def lister(self) -> Send:
        return self._sender(self.listing(0))

    async def text(self, server: int, tool: str) -> str:
        answer = await self._pool.ask(self.fresh(self.call(server, tool, {})))
        reason = self._reason(answer)
        if answer is None or reason is not None:
            raise CallFailed(str(reason))
        return self.text_in(answer.body)

    def _sender(self, content: bytes) -> Send:
        def send(done: Done) -> None:
            self._pool.send(self.fresh(content), lambda answer: done(self._reason(answer)))

        return send

    def _reason(self, answer: Answer | None) -> object:
        """Why a request failed; None when it did not."""
        if answer is None:
            return LOST
        if answer.status == _OK and not any(fault in answer.body for fault in self.faults):
            return None
        return f"HTTP {answer.status}: {answer.body[:200]!r}"
