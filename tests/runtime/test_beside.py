"""Tasks beside a block: they end with it, each alone, and what one raises ends the block."""

import anyio
import pytest

from supervisor.runtime.beside import Company, beside, company

pytestmark = pytest.mark.anyio


async def test_tasks_end_with_the_block_that_they_belong_to() -> None:
    with anyio.fail_after(5):
        async with company() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            await anyio.wait_all_tasks_blocked()


async def test_what_a_task_starts_while_it_ends_is_ended_too() -> None:
    async def start_another(tasks: Company) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            tasks.start_soon(anyio.sleep_forever)

    with anyio.fail_after(5):
        async with company() as tasks:
            tasks.start_soon(start_another, tasks)
            await anyio.wait_all_tasks_blocked()


async def test_what_one_raises_ends_the_block_and_the_others() -> None:
    async def fail() -> None:
        raise ValueError("so it is")

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        async with beside(anyio.sleep_forever, fail):
            await anyio.sleep_forever()

    assert caught.group_contains(ValueError)
