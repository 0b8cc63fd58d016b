"""The story of the fleet in the log: whatever becomes of its lines, the fleet goes on."""

import io
import logging
from collections.abc import Iterator

import pytest

from supervisor.logs import configure
from tests.runtime.fleet_support import Build

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

STORY = logging.getLogger("supervisor.runtime.fleet")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


class Full(logging.Handler):
    """Has no room for any line."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.refused.append(record.getMessage())
        raise MemoryError


@pytest.fixture
def full() -> Iterator[Full]:
    handler, level = Full(), STORY.level
    STORY.addHandler(handler)
    STORY.setLevel(logging.INFO)
    yield handler
    STORY.removeHandler(handler)
    STORY.setLevel(level)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Our log, as a daemon has it."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    configure("text", "info", journal=None, stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


async def test_what_is_logged_after_a_change_comes_after_it_and_time_goes_forward(
    build: Build, log: io.StringIO
) -> None:
    async with build.up() as fleet:
        STORY.warning("direct: after the start")
        await fleet.stop_server("fake")
        STORY.warning("direct: after the stop")

    lines = log.getvalue().splitlines()
    assert [line.split(": ")[2] for line in lines] == [
        *("starting", "ready", "after the start", "stopping", "stopped", "after the stop")
    ]
    stamps = [line.split()[0] for line in lines]
    assert stamps == sorted(stamps)


async def test_a_log_that_takes_no_line_costs_its_lines_and_not_the_fleet(build: Build, full: Full) -> None:
    async with build.up() as fleet:
        await fleet.restart_server("fake")

        assert fleet.members["fake"].ready

    assert [line.split(":")[1] for line in full.refused] == [
        *(" starting", " ready", " stopping", " starting", " ready", " stopping", " stopped")
    ]
