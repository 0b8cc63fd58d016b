"""The other end of the control socket, for programs that wait for their answer.

`SyncClient` owns one connection and asks one thing at a time on it, with the standard library alone; it is
for one thread. Every wait but that for news has a bound. It never retries: a call is never sent twice.
"""

import math
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from supervisor.errors import DaemonUnreachable, SupervisorError
from supervisor.surfaces.exchange import (
    CHUNK,
    CONNECT_TIMEOUT,
    PATIENCE,
    ConnectionEnded,
    Incoming,
    Message,
    Params,
    Progress,
    call_params,
    call_patience,
    cancel_line,
    chosen,
    find_socket,
    is_notification,
    no_account,
    no_answer,
    not_sent,
    notification_line,
    progress_of,
    request_line,
    result_of,
    typed,
    unreachable,
)

SHORTEST_WAIT = 0.001
"""Seconds; a wait of none at all would mean to a socket that it must not block."""
LONGEST_WAIT = 0.5
"""Seconds of one wait on the socket. A signal that another thread takes, or that comes in the moment before
the system waits, interrupts nothing: Python heeds it, Ctrl-C too, when the wait is over."""
CANCEL_PATIENCE = 1.0
LAST_WORD_PATIENCE = 1.0

OnNotification = Callable[[Message], None]


class SyncClient:
    """A connection to the daemon at `path`, or at the usual place; close it, or use it in a `with` statement.

    Raises:
        DaemonUnreachable: nobody listens there, or this user may not connect.
    """

    def __init__(self, path: str | None = None, *, connect_timeout: float = CONNECT_TIMEOUT) -> None:
        self.path = find_socket(path)
        self._socket = _connect(self.path, connect_timeout)
        self._incoming = Incoming(self.path)
        self._messages: deque[Message] = deque()
        self._last_id = 0
        self._subscriptions: list[Subscription] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection and all subscriptions; the daemon cancels what is still in flight on it."""
        for subscription in self._subscriptions:
            subscription.close()
        self._socket.close()

    # What people ask for.

    def tools(
        self, *, agent: str | None = None, patterns: Sequence[str] | None = None, server: str | None = None
    ) -> list[dict[str, Any]]:
        """The tools that may be called now: all, or those that the agent and the patterns allow."""
        asked = chosen(agent=agent, tools=patterns, server=server)
        tools: list[dict[str, Any]] = self.request("tools/list", asked)["tools"]
        return tools

    def call(  # noqa: PLR0913 - the parameters of tools/call
        self,
        name: str,
        arguments: Params | None = None,
        *,
        timeout: float | None = None,
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
        options = {"timeout": timeout, "approved": approved, "agent": agent, "tools": patterns}
        params = call_params(name, arguments, flatten=flatten, **options)
        token = self._last_id + 1
        if on_progress is not None:
            params["_meta"] = {"progressToken": token}

        def hear(message: Message) -> None:
            progress = progress_of(message, token)
            if progress is not None and on_progress is not None:
                on_progress(progress)

        patience = call_patience(timeout)
        result: dict[str, Any] = self.request("tools/call", params, timeout=patience, on_notification=hear)
        return result

    def servers(self) -> list[dict[str, Any]]:
        """Every configured server and how it is, by name."""
        servers: list[dict[str, Any]] = self.request("servers/list")["servers"]
        return servers

    def server(self, name: str) -> dict[str, Any]:
        """All that is known of one server.

        Raises:
            UnknownServer: there is none of that name.
        """
        server: dict[str, Any] = self.request("servers/get", {"server": name})
        return server

    def events(self, kinds: Sequence[str] | None = None) -> "Subscription":
        """The fleet's news from now on; kinds are `transition`, `catalog`, `reload` (the usual) and `log`."""
        subscription = Subscription(self.path, "events/subscribe", chosen(kinds=kinds))
        self._subscriptions.append(subscription)
        return subscription

    # What is asked of the daemon.

    def request(
        self,
        method: str,
        params: Params | None = None,
        *,
        timeout: float = PATIENCE,
        on_notification: OnNotification | None = None,
    ) -> Any:
        """The result of `method`; notifications that come first go to `on_notification`.

        A wait that ends without an answer, by time or by Ctrl-C, cancels the request at the daemon.

        Raises:
            SupervisorError: the daemon answered with an error; the type follows its code.
            DaemonUnreachable: no answer within `timeout` seconds, or the connection ended.
        """
        deadline = time.monotonic() + timeout
        identity = self._ask(method, params, deadline)
        with self._waiting(method, timeout, {identity}):
            reply = self._reply({identity}, deadline, on_notification)
        return result_of(reply)

    def requests(
        self, method: str, questions: Sequence[Params], *, timeout: float = PATIENCE
    ) -> Iterator[tuple[int, Any]]:
        """Ask several things at once; yields the position of each and its result, or its error, as they come.

        Raises:
            DaemonUnreachable: some are not answered within `timeout` seconds, or the connection ended.
        """
        deadline = time.monotonic() + timeout
        positions = {self._ask(method, params, deadline): at for at, params in enumerate(questions)}
        with self._waiting(method, timeout, positions.keys()):
            while positions:
                reply = self._reply(positions.keys(), deadline, None)
                at = positions.pop(reply["id"])
                yield at, typed(reply["error"]) if "error" in reply else reply.get("result")

    def notify(self, method: str, params: Params, *, timeout: float = PATIENCE) -> None:
        """Send a message that has no answer.

        Raises:
            DaemonUnreachable: the daemon does not take it.
        """
        self._send(method, notification_line(method, params), time.monotonic() + timeout)

    def next_notification(self) -> Message:
        """The next message that nobody asked for; waits for it as long as it takes.

        Raises:
            ConnectionEnded: the daemon hung up.
        """
        while not is_notification(message := self._message(math.inf)):
            pass
        return message

    def wait_closed(self, *, timeout: float) -> bool:
        """Whether the daemon ends the connection within `timeout` seconds; what it still sends is dropped."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                self._receive(deadline)
        except _OutOfTime:
            return False
        except ConnectionEnded:
            return True

    # How it works.

    def _ask(self, method: str, params: Params | None, deadline: float) -> int:
        self._last_id += 1
        self._send(method, request_line(self._last_id, method, params), deadline)
        return self._last_id

    @contextmanager
    def _waiting(self, method: str, timeout: float, unanswered: Collection[int]) -> Generator[None]:
        """Take back what is still unanswered when the wait ends otherwise than by an answer."""
        try:
            yield
        except ConnectionEnded as end:
            raise no_account(method, end) from None
        except _OutOfTime:
            self._cancel(unanswered)
            raise no_answer(method, timeout) from None
        except SupervisorError:
            raise
        except BaseException:
            self._cancel(unanswered)
            raise

    def _cancel(self, unanswered: Collection[int]) -> None:
        deadline = time.monotonic() + CANCEL_PATIENCE
        with suppress(DaemonUnreachable):  # the end of the connection cancels as well
            for identity in unanswered:
                self._send("notifications/cancelled", cancel_line(identity), deadline)

    def _send(self, method: str, line: bytes, deadline: float) -> None:
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), SHORTEST_WAIT))
            self._socket.sendall(line)
        except KeyboardInterrupt:
            self.close()  # half a line may be out; the daemon cancels what a lost client asked for
            raise
        except OSError as error:
            reason = self._last_word() if isinstance(error, ConnectionError) else None
            self.close()
            raise reason or not_sent(method, error) from None

    def _last_word(self) -> SupervisorError | None:
        """Why the daemon takes nothing any more, if it has said so."""
        deadline = time.monotonic() + LAST_WORD_PATIENCE
        with suppress(ConnectionEnded, DaemonUnreachable, _OutOfTime):
            while True:
                message = self._message(deadline)
                if "error" in message and message.get("id") is None:
                    return typed(message["error"])
        return None

    def _reply(
        self, awaited: Collection[int], deadline: float, on_notification: OnNotification | None
    ) -> Message:
        while True:
            message = self._message(deadline)
            if "method" in message:
                if on_notification is not None and is_notification(message):
                    on_notification(message)
            elif message.get("id") in awaited:
                return message
            elif "error" in message and message.get("id") is None:
                raise typed(message["error"])

    def _message(self, deadline: float) -> Message:
        while not self._messages:
            self._messages.extend(self._incoming.feed(self._receive(deadline)))
        return self._messages.popleft()

    def _receive(self, deadline: float) -> bytes:
        while (remaining := deadline - time.monotonic()) > 0:
            try:
                self._socket.settimeout(min(remaining, LONGEST_WAIT))
                chunk = self._socket.recv(CHUNK)
            except TimeoutError:
                continue
            except OSError as error:
                raise ConnectionEnded(f"the connection to the daemon broke ({error.strerror})") from None
            if not chunk:
                raise ConnectionEnded("the daemon closed the connection")
            return chunk
        raise _OutOfTime


class Subscription:
    """A request that is answered and then followed by news, on a connection of its own; iterate over them.

    They end when this is closed, or the client that made it. A reader that is too slow loses the oldest, and
    is told with `{"kind": "lost", "count": n}`.
    """

    def __init__(self, path: str | None, method: str, params: Params) -> None:
        self._method = method
        self._early: deque[Message] = deque()
        self._connection = SyncClient(path)
        try:
            self.answer: Any = self._connection.request(method, params, on_notification=self._early.append)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        """Wait for the next piece of news.

        Raises:
            DaemonUnreachable: the daemon is gone.
        """
        try:
            message = self._early.popleft() if self._early else self._connection.next_notification()
        except ConnectionEnded as end:
            raise DaemonUnreachable(f"cannot hear more of {self._method}: {end}") from None
        news: dict[str, Any] = message.get("params", {})
        return news

    def close(self) -> None:
        """Hear no more."""
        self._connection.close()


class _OutOfTime(Exception):
    """The deadline came before the answer."""


def _connect(path: str, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise unreachable(path, error) from None
    return connection
