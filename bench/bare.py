"""The least that a program on asyncio can do: the servers' pipes, callbacks, and nothing else."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from bench.callbacks import CallbackContender
from bench.channel import Channel
from bench.contender import INITIALIZE, Fleet


class Child(Channel):
    """One server, started by us."""

    def __init__(self, command: list[str]) -> None:
        super().__init__()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    async def open(self) -> None:
        """Attach the pipes, greet, list."""
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: self, self._process.stdout)
        writer, _ = await loop.connect_write_pipe(asyncio.Protocol, self._process.stdin)
        self._writer, self.write = writer, writer.write
        await self.ask("initialize", INITIALIZE)
        self.notify("notifications/initialized")
        await self.ask("tools/list", {})

    def end(self) -> None:
        """Ask it to end: close its input, and SIGTERM."""
        self._writer.abort()
        self._process.terminate()

    async def gone(self, grace: float) -> None:
        """Wait until it has ended, with SIGKILL after `grace` seconds."""
        pidfd = os.pidfd_open(self._process.pid)
        exited = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, exited.set)
        try:
            await asyncio.wait_for(exited.wait(), grace)
        except TimeoutError:
            self._process.send_signal(signal.SIGKILL)
            await exited.wait()
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._process.wait()


class Bare(CallbackContender):
    """Children of our own, started side by side."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._children: list[Child] = []

    async def open(self) -> None:
        self._children = [Child(self._fleet.command) for _ in range(self._fleet.servers)]
        await asyncio.gather(*(child.open() for child in self._children))

    async def close(self) -> None:
        for child in self._children:
            child.end()
        await asyncio.gather(*(child.gone(self._fleet.stop_grace) for child in self._children))

    def call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> tuple[Channel, dict[str, Any]]:
        return self._children[server], {"name": tool, "arguments": arguments}

    def listing(self) -> tuple[Channel, dict[str, Any]]:
        return self._children[0], {}
