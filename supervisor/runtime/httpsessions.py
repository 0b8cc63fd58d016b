"""Which sessions the runs of one server are in, so that none ends a session that another one needs.

A server may give two runs the same session: some know only one, or take it from the client's credentials.
"""

from collections.abc import Generator
from contextlib import contextmanager

from supervisor.core.letterhead import Letterhead


class Sessions:
    """The sessions of one server."""

    def __init__(self) -> None:
        self._heads: list[Letterhead] = []

    @contextmanager
    def joined(self, head: Letterhead) -> Generator[None]:
        """Count the sessions that this letterhead names, one after the other."""
        self._heads.append(head)
        try:
            yield
        finally:
            self._heads.remove(head)

    def needs(self, session_id: str, *, besides: Letterhead) -> bool:
        """Whether a conversation other than this one is in that session."""
        return any(head.session_id == session_id for head in self._heads if head is not besides)
