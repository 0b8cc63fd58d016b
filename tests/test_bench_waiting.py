"""How the benchmark waits for a peer whose servers start: as briefly as for us, and without a crowd."""

import asyncio

from bench.peers.polling import once_ready


class Starting:
    """Places that become ready, each when it or another one has been asked so often."""

    def __init__(self, ready_after: dict[str, int]) -> None:
        self._ready_after = ready_after
        self.asked: list[str] = []

    async def ready(self, place: str) -> bool:
        self.asked.append(place)
        return len(self.asked) >= self._ready_after[place]


def test_until_a_peer_answers_only_its_first_server_is_asked_for() -> None:
    peer = Starting({"a": 3, "b": 3, "c": 3})

    asyncio.run(once_ready(peer.ready, ["a", "b", "c"]))

    assert peer.asked == ["a", "a", "a", "b", "c"]


def test_a_server_that_is_late_is_asked_for_alone_and_all_others_with_it_when_it_is_there() -> None:
    peer = Starting({"a": 1, "b": 6, "c": 1, "d": 7})

    asyncio.run(once_ready(peer.ready, ["a", "b", "c", "d"]))

    assert peer.asked == ["a", "b", "c", "d", "b", "b", "d"]
