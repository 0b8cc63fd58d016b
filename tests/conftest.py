"""What all tests share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The loop for async tests; one that wants virtual time overrides this with trio's."""
    return "asyncio"
