"""The other end of the hot path: the control socket, as callbacks of the event loop.

Each client is a protocol object. A line goes from the loop to the parser to a handler, and the answer
straight to the transport; no task is made for it. This and `runtime.pipes` are the only modules that know
the loop is asyncio's.

A client cannot hurt the daemon: its lines, its nesting, its calls in flight and its unread answers are
bounded, and a client that does not read its answers is dropped.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import cast

from supervisor.core.framing import LineFramer, TooLong
from supervisor.core.jsonrpc import NULL, Invalid, Request, error_line, read_request
from supervisor.errors import Busy, Outcome, SupervisorError, TooLarge
from supervisor.runtime.calls import Call
from supervisor.surfaces.answers import Answer, Batch
from supervisor.surfaces.endpoint import may_connect, peer
from supervisor.surfaces.methods import CancelParams, Service, handle, read_call, read_params

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    line_bytes: int = 4 * 1024 * 1024
    depth: int = 100
    clients: int = 256
    calls_per_client: int = 64
    unread_bytes: int = 8 * 1024 * 1024
    unread_seconds: float = 10.0


@dataclass(slots=True)
class Control:
    """Everybody who is connected."""

    service: Service
    limits: Limits = field(default_factory=Limits)
    clients: "set[Client]" = field(default_factory=set["Client"])

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncGenerator[None]:
        """Answer at `listener` until the block is left; then hang up on everybody."""
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: Client(self), sock=listener)
        try:
            yield
        finally:
            server.close()
            for client in list(self.clients):
                client.hang_up()


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, control: Control) -> None:
        self._control, self._limits = control, control.limits
        self._framer = LineFramer(control.limits.line_bytes)
        self._transport: asyncio.Transport | None = None
        self._calls: dict[Answer, Call] = {}
        self._too_slow: asyncio.TimerHandle | None = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        pid, uid = peer(transport.get_extra_info("socket"))
        if not may_connect(uid):
            logger.warning("refusing a connection of user %d (process %d)", uid, pid)
            self._transport.abort()
        elif len(self._control.clients) >= self._limits.clients:
            self.send(error_line(NULL, Busy.code, "cannot serve more clients; try again later"))
            self._transport.close()
        else:
            self._transport.set_write_buffer_limits(high=self._limits.unread_bytes)
            self._control.clients.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            lines = self._framer.feed(data)
        except TooLong as exc:
            self._refuse_the_rest(exc)
            return
        for line in lines:
            if line and not line.isspace():
                self._take(line)

    def eof_received(self) -> bool:
        """Half a line at the end is no request; what is still in flight may be answered."""
        return bool(self._calls)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self._control.clients.discard(self)
        self._transport = None
        self.resume_writing()
        for call in list(self._calls.values()):
            call.cancel("the client disconnected")

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
        loop = asyncio.get_running_loop()
        self._too_slow = loop.call_later(self._limits.unread_seconds, self._drop)

    def resume_writing(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
        if self._transport is not None:
            self._transport.resume_reading()

    # What it does.

    def hang_up(self) -> None:
        """Close when everything written so far is read, but wait for nobody."""
        if self._transport is not None:
            self._transport.close()

    def _drop(self) -> None:
        logger.warning("dropping a client that does not read its answers")
        if self._transport is not None:
            self._transport.abort()

    def _refuse_the_rest(self, exc: TooLong) -> None:
        self.send(error_line(NULL, TooLarge.code, f"cannot read the request: {exc}"))
        self.hang_up()

    def _take(self, line: bytes) -> None:
        request = read_request(line, max_depth=self._limits.depth)
        if isinstance(request, Request):
            self._serve(request, Answer(self, request.id))
        elif isinstance(request, Invalid):
            self.send(error_line(request.id, request.code, request.message))
        else:
            self._take_batch(request)

    def _take_batch(self, requests: list[Request | Invalid]) -> None:
        batch = Batch(self, sum(each.id is not None for each in requests))
        for each in requests:
            if isinstance(each, Invalid):
                batch.add(error_line(each.id, each.code, each.message))
            else:
                self._serve(each, Answer(self, each.id, batch))

    def _serve(self, request: Request, answer: Answer) -> None:
        try:
            if request.method == "tools/call":
                self._call(request, answer)
            elif request.method == "notifications/cancelled":
                self._cancel(request)
            else:
                answer.result(handle(self._control.service, request))
        except SupervisorError as exc:
            answer.error(exc)
        except Exception:  # the boundary: a bug in a handler costs one request
            logger.exception("cannot answer %s", request.method)
            answer.error(SupervisorError(f"cannot answer {request.method}: an internal error, see the log"))

    def _call(self, request: Request, answer: Answer) -> None:
        limit = self._limits.calls_per_client
        if len(self._calls) >= limit:
            raise Busy(f"cannot have more than {limit} calls in flight", outcome=Outcome.REJECTED)
        call = self._control.service.fleet.call(read_call(request.params), answer, self)
        if not answer.given:
            self._calls[answer] = call

    def _cancel(self, request: Request) -> None:
        identity = bytes(read_params(CancelParams, request.params).request_id)
        for answer, call in list(self._calls.items()):
            if answer.identity == identity:
                call.cancel("the client cancelled it")

    def answered(self, answer: Answer) -> None:
        """Take note that a request has its answer."""
        self._calls.pop(answer, None)

    def send(self, line: bytes) -> None:
        """Write one message."""
        if self._transport is not None:
            self._transport.writelines((line, b"\n"))
