"""What a wire over HTTP needs of whoever owns it."""

from collections.abc import Awaitable
from typing import Protocol

from supervisor.core.jsonrpc import Message
from supervisor.core.phases import End


class Owner(Protocol):
    """Whom a wire tells what it cannot decide."""

    @property
    def version(self) -> str:
        """The protocol version agreed on; empty until then."""
        ...

    def receive(self, message: Message) -> None:
        """Take what the server sent of its own accord."""
        ...

    def on_noise(self, line: bytes) -> None:
        """Take note of what the server sent and nobody can use."""
        ...

    def fail(self, end: End) -> None:
        """The server cannot be asked any more."""
        ...

    def doubt(self) -> None:
        """A request broke off, or met a session that may be forgotten: the server may be gone."""
        ...

    def renew(self) -> Awaitable[None]:
        """Greet the server anew, because it forgot the session.

        Raises:
            NotSent: that cannot be.
        """
        ...


class _Nobody:
    """The owner of a wire that is over."""

    version = ""

    def receive(self, message: Message) -> None: ...

    def on_noise(self, line: bytes) -> None: ...

    def fail(self, end: End) -> None: ...

    def doubt(self) -> None: ...

    async def renew(self) -> None: ...


NOBODY: Owner = _Nobody()
