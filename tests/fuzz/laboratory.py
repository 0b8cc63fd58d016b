"""A daemon for one module of fuzzing, with settings of its own, and the look at it when all is over.

Whatever was done to it: it lives, it has as many descriptors, tasks and processes as before, has reaped its
children, and met no error of its own.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.selftest.lab import SETTINGS, Entry, Lab
from supervisor.selftest.oracle import aftermath, baseline, leftovers
from tests.files import save, whole_lines

LONG = pytest.mark.timeout(0 if "FUZZ" in os.environ else 900)
"""For a test that tries much, on a machine that has other things to do."""


class Laboratory(Lab):
    """A lab whose daemon gets these settings, too."""

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(directory)
        self._settings = {**SETTINGS, **settings}

    def write(self, servers: Mapping[str, Entry]) -> None:
        save(self.config, json.dumps({"mcpServers": servers, "supervisor": self._settings}))

    def internal_errors(self) -> list[str]:
        """What the daemon's log says of errors that nobody raised on purpose."""
        lines = [json.loads(line) for line in whole_lines(self.log)]
        return [line["message"] for line in lines if "exception" in line]


@contextmanager
def laboratory(
    directory: Path, servers: Mapping[str, Entry], *, mended: Callable[[Laboratory], None], **settings: Any
) -> Iterator[Laboratory]:
    """Have a daemon with these servers; `mended` brings them back to life when all is over."""
    lab = Laboratory(directory, settings)
    try:
        lab.start(servers)
        mended(lab)
        before = baseline(lab)
        yield lab
        mended(lab)
        assert len(lab.processes()) == len(before.processes)
        # They may have been restarted, which is no harm.
        assert aftermath(lab, replace(before, processes=lab.processes())) == []
        assert lab.internal_errors() == []
        assert lab.end() == 0
        assert leftovers(lab) == []
    finally:
        lab.destroy()
