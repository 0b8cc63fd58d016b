"""A flood of questions is answered at the pace at which the server takes answers, or not at all."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from supervisor.runtime import httpanswers
from supervisor.runtime.beside import company
from supervisor.runtime.httpanswers import AT_ONCE, Answers

pytestmark = pytest.mark.anyio


class Post:
    """Takes answers, and has each only when it is let."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.let = anyio.Semaphore(0)

    async def __call__(self, line: bytes) -> None:
        self.begun.append(line)
        await self.let.acquire()


@asynccontextmanager
async def answering(lines: list[bytes]) -> AsyncGenerator[Post]:
    """Have these answers added."""
    post = Post()
    answers = Answers(post)
    async with company() as tasks:
        for line in lines:
            answers.add(line, tasks)
        await anyio.wait_all_tasks_blocked()
        yield post


async def test_no_more_than_a_few_answers_are_under_way_and_the_others_follow_in_order() -> None:
    lines = [b"%d" % number for number in range(AT_ONCE + 3)]

    async with answering(lines) as post:
        assert sorted(post.begun) == sorted(lines[:AT_ONCE])
        for _ in lines:
            post.let.release()
        await anyio.wait_all_tasks_blocked()

        assert post.begun[AT_ONCE:] == lines[AT_ONCE:]


@pytest.mark.parametrize(("name", "bound"), [("_WAITING", 2), ("_BYTES", 8)])
async def test_what_exceeds_the_bounds_is_not_answered(
    name: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpanswers, name, bound)
    lines = [b"%04d" % number for number in range(AT_ONCE + 5)]

    async with answering(lines) as post:
        for _ in lines:
            post.let.release()
        await anyio.wait_all_tasks_blocked()

        assert sorted(post.begun) == lines[: AT_ONCE + 2]
