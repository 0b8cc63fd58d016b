"""What all tests share."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# A deadline for each example would be an assertion about the wall clock, and fails on a busy machine; so is
# the check that examples are made quickly.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell without job control starts what runs in the background deaf to Ctrl-C, and tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    """The loop for async tests; one that wants virtual time overrides this with trio's."""
    return "asyncio"
