"""What all tests share."""

import signal

import pytest

# A shell without job control starts what runs in the background deaf to Ctrl-C, and tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    """The loop for async tests; one that wants virtual time overrides this with trio's."""
    return "asyncio"
