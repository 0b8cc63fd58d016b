"""mcporter's daemon: a Unix socket that takes one request for each connection.

Its own client also reads files and asks for the status before every call; here the daemon is called directly.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.callbacks import SendingContender
from bench.channel import LOST
from bench.contender import Fleet
from bench.load import CHUNK, PAUSE, CallFailed, Done, Send
from bench.peers.polling import noticed

_HEAD = 80
"""Within how many bytes an answer says whether it went well."""

OnAnswer = Callable[[bytes], None]
"""Told the answer; empty when there was none."""


def command(installed: Path, fleet: Fleet, config: Path) -> list[str]:
    settings = {
        "MCPORTER_DAEMON_SOCKET": fleet.socket,
        "MCPORTER_DAEMON_METADATA": f"{fleet.socket}.json",
        "MCPORTER_KEEPALIVE": "*",
    }
    variables = [f"{name}={value}" for name, value in settings.items()]
    program = [str(installed / "mcporter"), "--config", str(config), "daemon", "start", "--foreground"]
    return ["env", *variables, *program]


class _Exchange:
    """One connection: a request, and all that comes until its end."""

    def __init__(self, path: str, content: bytes, on_answer: OnAnswer) -> None:
        self._on_answer = on_answer
        self._parts: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.connect(path)
            self._socket.send(content)
        except OSError:
            self._socket.close()
            self._loop.call_soon(on_answer, b"")
        else:
            self._loop.add_reader(self._socket, self._read)

    def _read(self) -> None:
        try:
            chunk = self._socket.recv(CHUNK)
        except OSError:
            chunk = b""
        if chunk:
            self._parts.append(chunk)
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._on_answer(b"".join(self._parts))


def _request(method: str, params: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"id": "1", "method": method, "params": params})


def _reason(answer: bytes) -> object:
    """Why a request failed; None when it did not."""
    if b'"ok":true' in answer[:_HEAD] and b'"isError":true' not in answer:
        return None
    return answer[:200] or LOST


class Contender(SendingContender):
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def open(self) -> None:
        """Ask for the tools of all servers side by side as soon as it listens: that has it start them."""
        while not await self._ask(_request("status", {})):  # noqa: ASYNC110 - it does not say when
            await asyncio.sleep(PAUSE)
        await asyncio.gather(*map(self._listed, range(self._fleet.servers)))

    async def _listed(self, server: int) -> None:
        while _reason(answer := await self._ask(self._listing(server))) is not None:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        found = len(msgspec.json.decode(answer)["result"])
        if found != self._fleet.tools:
            raise CallFailed(f"s{server} has {found} tools instead of {self._fleet.tools}")

    async def close(self) -> None:
        """Nothing: the daemon is ended by whoever started it."""

    def sender(self, server: int, tool: str, arguments: Mapping[str, Any]) -> Send:
        return self._sender(self._call(server, tool, arguments))

    def lister(self) -> Send:
        return self._sender(self._listing(0))

    async def text(self, server: int, tool: str) -> str:
        answer = await self._ask(self._call(server, tool, {}))
        if (reason := _reason(answer)) is not None:
            raise CallFailed(str(reason))
        return str(msgspec.json.decode(answer)["result"]["content"][0]["text"])

    async def noticed(self, server: int, pid: int) -> int:
        return await noticed(lambda: self._connected(f"s{server}"), pid)

    async def _connected(self, name: str) -> bool:
        status = msgspec.json.decode(await self._ask(_request("status", {})))
        return any(each["connected"] for each in status["result"]["servers"] if each["name"] == name)

    def _call(self, server: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
        return _request("callTool", {"server": f"s{server}", "tool": tool, "args": arguments})

    def _listing(self, server: int) -> bytes:
        return _request("listTools", {"server": f"s{server}", "includeSchema": True})

    def _sender(self, content: bytes) -> Send:
        def send(done: Done) -> None:
            _Exchange(self._fleet.socket, content, lambda answer: done(_reason(answer)))

        return send

    async def _ask(self, content: bytes) -> bytes:
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        _Exchange(self._fleet.socket, content, answered.set_result)
        return await answered
