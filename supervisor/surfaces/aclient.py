"""The other end of the control socket, for programs on anyio: asyncio or trio.

A `Client` owns one connection on which any number of tasks ask at once: every request has an id of its own,
one task reads the answers. Writing never waits: what the socket does not take at once is sent by a second
task, so a cancelled request leaves no half line behind. It never retries: a call is never sent twice.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from supervisor.errors import DaemonUnreachable
from supervisor.surfaces.aconnection import Connection
from supervisor.surfaces.exchange import (
    CONNECT_TIMEOUT,
    SEE_LOG,
    ConnectionEnded,
    Message,
    Params,
    Progress,
    call_params,
    call_patience,
    cancel_line,
    chosen,
    is_notification,
    no_account,
    no_answer,
    progress_of,
    request_line,
    result_of,
    typed,
)

NOT_OPEN = "the client is used outside its 'async with' statement"
CLOSED = "this client is closed"


class Client:
    """A connection to the daemon at `path`, or at the usual place, for an `async with` statement.

    Enter and leave it in the same task; ask from any task in between. Cancelling a task that waits here, or
    a timeout such as `anyio.fail_after`, cancels the request at the daemon.
    """

    def __init__(self, path: str | None = None, *, connect_timeout: float = CONNECT_TIMEOUT) -> None:
        self._path, self._connect_timeout = path, connect_timeout
        self._connection: Connection | None = None
        self._tasks: TaskGroup | None = None
        self._asked: dict[int, _Question] = {}
        self._last_id = 0
        self._end = NOT_OPEN
        """Why nothing can be asked; empty while it can."""
        self._complaint = ""
        """What the daemon said last, if that was an error about no request in particular."""
        self._streams: list[EventStream] = []

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            DaemonUnreachable: nobody listens there, or this user may not connect.
        """
        connection = await Connection.open(self._path, self._connect_timeout)
        self._connection, self._end = connection, ""
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._read, connection)
        self._tasks.start_soon(connection.write)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up; the daemon cancels what is still in flight."""
        assert self._tasks is not None
        assert self._connection is not None
        self._tasks.cancel_scope.cancel()
        try:
            # The group never sees the caller's exception, so it cannot wrap it into a group of exceptions.
            await self._tasks.__aexit__(None, None, None)
        finally:
            self._finish(CLOSED)
            self._connection.close()
            for stream in self._streams:
                stream.close()

    # What people ask for.

    async def tools(
        self, *, agent: str | None = None, patterns: Sequence[str] | None = None, server: str | None = None
    ) -> list[dict[str, Any]]:
        """The tools that may be called now: all, or those that the agent and the patterns allow."""
        answer = await self.request("tools/list", chosen(agent=agent, tools=patterns, server=server))
        tools: list[dict[str, Any]] = answer["tools"]
        return tools

    async def call(  # noqa: PLR0913 - the parameters of tools/call
        self,
        name: str,
        arguments: Params | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the daemon keeps this time, not we
        approved: bool = False,
        agent: str | None = None,
        patterns: Sequence[str] | None = None,
        flatten: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> dict[str, Any]:
        """What the tool returned: MCP's CallToolResult, or `{error, output}` with `flatten`.

        The daemon ends the call after `timeout` seconds, or after the server's `callTimeout`.

        Raises:
            SupervisorError: the call did not end in a result; `data["outcome"]` says what is known of it.
            DaemonUnreachable: the daemon did not answer.
        """
        patience = call_patience(timeout)
        options = {"timeout": timeout, "approved": approved, "agent": agent, "tools": patterns}
        params = call_params(name, arguments, flatten=flatten, **options)
        with anyio.move_on_after(patience):
            result: dict[str, Any] = await self._exchange("tools/call", params, on_progress)
            return result
        raise no_answer("tools/call", patience)

    async def servers(self) -> list[dict[str, Any]]:
        """Every configured server and how it is, by name."""
        servers: list[dict[str, Any]] = (await self.request("servers/list"))["servers"]
        return servers

    async def server(self, name: str) -> dict[str, Any]:
        """All that is known of one server.

        Raises:
            UnknownServer: there is none of that name.
        """
        server: dict[str, Any] = await self.request("servers/get", {"server": name})
        return server

    def events(self, kinds: Sequence[str] | None = None) -> "EventStream":
        """The fleet's news; `kinds` are `transition`, `catalog`, `reload` (the usual) and `log`."""
        stream = EventStream(self._path, self._connect_timeout, kinds)
        self._streams.append(stream)
        return stream

    async def request(self, method: str, params: Params | None = None) -> Any:
        """The result of any method; wait for it within `anyio.fail_after` to set a limit.

        Raises:
            SupervisorError: the daemon answered with an error; the type follows its code.
            DaemonUnreachable: the connection ended.
        """
        return await self._exchange(method, dict(params or {}), None)

    # How it works.

    async def _exchange(
        self, method: str, params: dict[str, Any], on_progress: Callable[[Progress], None] | None
    ) -> Any:
        if self._connection is None or self._end:
            raise DaemonUnreachable(f"cannot send {method}: {self._end}; {SEE_LOG}")
        self._last_id = identity = self._last_id + 1
        if on_progress is not None:
            params["_meta"] = {"progressToken": identity}
        self._connection.send(method, request_line(identity, method, params))
        question = self._asked[identity] = _Question(method)
        try:
            return result_of(await question.answer(on_progress))
        finally:
            if self._asked.pop(identity, None) is not None:
                with suppress(DaemonUnreachable):  # the end of the connection cancels as well
                    self._connection.send("notifications/cancelled", cancel_line(identity))

    async def _read(self, connection: Connection) -> None:
        """Hand out answers until the daemon hangs up."""
        try:
            while True:
                for message in await connection.receive():
                    self._take(message)
        except (ConnectionEnded, DaemonUnreachable) as end:
            self._finish(self._complaint or str(end))
            connection.close()

    def _take(self, message: Message) -> None:
        self._complaint = ""
        match message:
            case {"method": "notifications/progress", "params": {"progressToken": int(token)}}:
                if (question := self._asked.get(token)) and (progress := progress_of(message, token)):
                    question.progressed(progress)
            case {"method": _}:
                pass
            case {"id": int(identity)}:
                if question := self._asked.pop(identity, None):
                    question.answered(message)
            case {"error": _}:
                self._take_complaint(message)
            case _:
                pass

    def _take_complaint(self, message: Message) -> None:
        """The daemon could not read a request and cannot say which; it says so at once, so it is the latest.

        It may be another after all: then nobody knows what became of the latest, and it is cancelled. If the
        connection ends now, this was the reason.
        """
        self._complaint = str(typed(message["error"]))
        if len(self._asked) == 1:
            self._asked.popitem()[1].answered(message)
        elif self._asked:
            self._asked[next(reversed(self._asked))].lost(self._complaint)

    def _finish(self, end: str) -> None:
        self._end = self._end or end
        for question in self._asked.values():
            question.lost(self._end)
        self._asked.clear()


class _Question:
    """A request that waits for its answer."""

    __slots__ = ("_changed", "_end", "_method", "_news", "_reply")

    def __init__(self, method: str) -> None:
        self._method = method
        self._changed = anyio.Event()
        self._news: deque[Progress] = deque()
        self._reply: Message | None = None
        self._end: str | None = None

    def progressed(self, progress: Progress) -> None:
        self._news.append(progress)
        self._changed.set()

    def answered(self, reply: Message) -> None:
        self._reply = reply
        self._changed.set()

    def lost(self, end: str) -> None:
        self._end = end
        self._changed.set()

    async def answer(self, on_progress: Callable[[Progress], None] | None) -> Message:
        """The reply; progress is told on the way, in the task that asked.

        Raises:
            DaemonUnreachable: there will be none.
        """
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            while self._news and on_progress is not None:
                on_progress(self._news.popleft())
            if self._reply is not None:
                return self._reply
            if self._end is not None:
                raise no_account(self._method, self._end)


class EventStream:
    """News on a connection of their own, for `async for`; in an `async with`, all from its beginning.

    They end when this, or its client, is closed. A reader that is too slow loses the oldest, and is told with
    `{"kind": "lost", "count": n}`.
    """

    def __init__(self, path: str | None, connect_timeout: float, kinds: Sequence[str] | None) -> None:
        self._path, self._connect_timeout = path, connect_timeout
        self._params = chosen(kinds=kinds)
        self._connection: Connection | None = None
        self._news: deque[dict[str, Any]] = deque()

    async def __aenter__(self) -> Self:
        await self._subscribe()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Wait for the next piece of news.

        Raises:
            DaemonUnreachable: the daemon is gone.
        """
        connection = self._connection or await self._subscribe()
        while not self._news:
            await self._hear(connection)
        return self._news.popleft()

    def close(self) -> None:
        """Hear no more."""
        if self._connection is not None:
            self._connection.close()

    async def _subscribe(self) -> Connection:
        self._connection = connection = await Connection.open(self._path, self._connect_timeout)
        connection.send("events/subscribe", request_line(1, "events/subscribe", self._params))
        while (reply := await self._hear(connection)) is None:
            pass
        result_of(reply)
        return connection

    async def _hear(self, connection: Connection) -> Message | None:
        """Take what has come; an answer that is among it is returned."""
        reply = None
        try:
            for message in await connection.receive():
                if is_notification(message):
                    self._news.append(message.get("params", {}))
                else:
                    reply = message
        except ConnectionEnded as end:
            raise DaemonUnreachable(f"cannot hear more events: {end}") from None
        return reply
