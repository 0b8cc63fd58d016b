"""The other end of the hot path: one client of the control socket, as callbacks of the event loop.

A line goes from the loop to the parser to a handler, and the answer
straight to the transport; a task is made only for what has to wait. This is one of the few modules that know
the loop is asyncio's.

A client cannot hurt the daemon: its lines, its nesting, its calls in flight and its unread answers are
bounded, what it sends at once is served in turns with others, and a client that does not read is dropped.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol, cast

import msgspec

from supervisor.core.counters import UNKNOWN
from supervisor.core.framing import LineFramer, TooLong
from supervisor.core.jsonrpc import NULL, Invalid, Request, error_line, read_request
from supervisor.core.labour import PATIENCE_WITH_CLIENTS
from supervisor.core.spec import LimitSettings
from supervisor.errors import Busy, Outcome, SupervisorError, TooLarge
from supervisor.runtime.calls import Call, CallRequest, tell
from supervisor.runtime.outlet import Outlet
from supervisor.runtime.wakefulness import Wakefulness
from supervisor.surfaces.answers import Answer, Batch
from supervisor.surfaces.endpoint import peer
from supervisor.surfaces.farewell import MOST_FAREWELLS, Farewell, stays
from supervisor.surfaces.feed import Feeds
from supervisor.surfaces.intake import Intake
from supervisor.surfaces.methods import DESCRIPTIONS, find, read_params
from supervisor.surfaces.service import Service
from supervisor.surfaces.tool_methods import CancelParams, read_call, read_plain_call

logger = logging.getLogger(__name__)

_FEED_ROOM = 64 * 1024
"""Bytes a client may leave unread before its news wait."""

_PLAIN_BYTES = 64 * 1024
"""The longest line that is tried in the plain form first; a longer one is not looked at twice."""

_FAR_TOO_MUCH = 8
"""Times the limit of unread answers, at which a client is dropped: calls under way may add to them."""
_NEWLINE = ord("\n")
_LONG_BATCH = "cannot answer more of this batch: its answers are too long already; ask in smaller batches"

_encoder = msgspec.json.Encoder()


def _nowhere(_message: bytes) -> bool:
    """Write to a client that has left."""
    return False


class Control(Protocol):
    """What a client needs of the socket that it is connected to."""

    service: Service
    limits: LimitSettings
    clients: "set[Client]"
    leaving: set[Farewell]

    @property
    def admits(self) -> Callable[[int], bool]:
        """Which users may connect."""
        ...

    def left(self, client: "Client") -> None:
        """Called when a connection has ended."""
        ...


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, control: Control) -> None:
        loop = asyncio.get_running_loop()
        self._control, self._limits, self._fleet = control, control.limits, control.service.fleet
        self._framer = LineFramer(control.limits.request_bytes, PATIENCE_WITH_CLIENTS)
        self._answered = control.service.fleet.counters.requests
        self._depth, self._most_calls = control.limits.depth, control.limits.calls_per_client
        self._plain_bytes = min(control.limits.request_bytes, _PLAIN_BYTES)
        self._transport: asyncio.Transport | None = None
        self._outlet: Outlet | None = None
        self.write: Callable[[bytes], bool] = _nowhere
        self._write_now: Callable[[bytes], bool] = _nowhere
        self._most_unread = _FAR_TOO_MUCH * control.limits.unread_bytes
        self._intake = Intake(self._take, self._read_on, loop.call_soon)
        self._awake = Wakefulness(loop.call_soon)
        self._last_word: bytes | None = None
        self._calls: dict[Answer, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._feeds = Feeds(self.send, self._has_room, loop.call_later)
        self._on_leave: list[Callable[[], None]] = []
        self._too_slow: asyncio.TimerHandle | None = None
        self._half_closed = False

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connection = transport.get_extra_info("socket")
        self._outlet = Outlet(self._transport, connection.fileno())
        self.write = self._write_now = self._outlet.write
        pid, uid = peer(connection)
        if not self._control.admits(uid):
            logger.warning("refusing a connection of user %d (process %d)", uid, pid)
            self._transport.abort()
        elif len(self._control.clients) >= self._limits.clients:
            self._part(error_line(NULL, Busy.code, "cannot serve more clients; try again later"))
        else:
            self._transport.set_write_buffer_limits(high=self._limits.unread_bytes)
            self._control.clients.add(self)

    def data_received(self, data: bytes) -> None:
        self._awake.came(time.monotonic())
        if not self._framer.open and data[-1] == _NEWLINE and self._take_plain(data):
            return
        try:
            lines = self._framer.feed(data)
        except TooLong as exc:
            lines = exc.before
            self._last_word = error_line(NULL, TooLarge.code, f"cannot read the request: {exc}")
        self._intake.take(lines)
        if self._transport is None or self._transport.is_closing():
            return
        if self._intake.waiting:
            self._transport.pause_reading()
        elif self._last_word is not None and not self._intake.held:
            self._part(self._last_word)

    def eof_received(self) -> bool:
        """Whether to stay: a client that only stopped writing still gets its answers."""
        self._half_closed = True
        return self._awaited and self._transport is not None and stays(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self._control.left(self)
        self._transport, self.write = None, _nowhere
        self._intake.close()
        self._feeds.close()
        if self._too_slow is not None:
            self._too_slow.cancel()
        # The latest first: an earlier one that ends would send the next of them.
        for call in list(reversed(self._calls.values())):
            call.cancel("the client disconnected")
        for task in self._tasks:
            task.cancel()
        for action in self._on_leave:
            action()

    def pause_writing(self) -> None:
        assert self._transport is not None
        self._intake.hold()
        self.write = self._write_late
        self._transport.pause_reading()
        self._too_slow = asyncio.get_running_loop().call_later(self._limits.unread_seconds, self.drop)

    def resume_writing(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
        if self._transport is not None:
            self.write = self._write_now
            self._intake.release()

    # What handlers need of it.

    def follow(self, method: str) -> Callable[[bytes], None]:
        if len(self._feeds) >= self._most_calls:
            raise Busy(f"cannot follow more than {self._most_calls} things at once")
        return self._feeds.add(method)

    def on_leave(self, action: Callable[[], None]) -> None:
        self._on_leave.append(action)

    def send(self, message: bytes) -> None:
        """Write one message."""
        self.write(message + b"\n")

    def send_parts(self, *parts: bytes | memoryview) -> None:
        """Write one large message as it lies in memory."""
        if self._transport is not None and not self._is_flooded():
            self._flush()
            self._transport.writelines((*parts, b"\n"))

    def tell(self, message: bytes) -> None:
        """Write one message, or forget it when the client has left too much unread."""
        if not self._intake.held:
            self.send(message)

    def answered(self, answer: Answer) -> None:
        """Take note that a request has its answer, and leave when a client that stopped writing has all."""
        self._calls.pop(answer, None)
        try:
            self._answered[answer.method, answer.code] += 1
        except KeyError:
            self._count(answer.method, answer.code)
        if self._half_closed:
            self._leave_if_done()
        elif not self._calls:
            self._awake.expect(time.monotonic())

    def hang_up(self) -> None:
        """Close when everything written so far is read."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def drop(self) -> None:
        """Hang up at once."""
        if self._transport is not None and not self._transport.is_closing():
            logger.warning("dropping a client that does not read its answers")
            self._intake.hold()
            self._transport.abort()

    # How it works.

    def _part(self, last_word: bytes) -> None:
        """Say why nothing more will be said; the client has a moment to hear it."""
        assert self._transport is not None
        self.send(last_word)
        if len(self._control.leaving) >= MOST_FAREWELLS:
            self.hang_up()
            return
        Farewell(self._transport, self._control.leaving, patience=self._limits.unread_seconds)
        self.connection_lost(None)

    def _read_on(self) -> None:
        """Read again: everything that came is served."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._half_closed:
            self._transport.resume_reading()
        if self._last_word is not None:
            self._part(self._last_word)

    def _flush(self) -> None:
        """Write what waits for others to be written with it."""
        if self._outlet is not None:
            self._outlet.flush()

    def _write_late(self, message: bytes) -> bool:
        """Write to a client that has left too much unread."""
        return not self._is_flooded() and self._write_now(message)

    def _is_flooded(self) -> bool:
        """Whether a client is dropped because it has left far too much unread."""
        flooded = self._transport is not None and self._transport.get_write_buffer_size() > self._most_unread
        if flooded:
            self.drop()
        return flooded

    def _leave_if_done(self) -> None:
        if self._half_closed and not self._awaited:
            self.hang_up()

    def _count(self, method: str, code: str) -> None:
        self._fleet.counters.answered(method if method in DESCRIPTIONS else UNKNOWN, code)

    @property
    def _awaited(self) -> bool:
        """Whether something is still to come for this client."""
        return bool(self._calls or self._tasks or self._feeds)

    def _has_room(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() < _FEED_ROOM

    def _take_plain(self, line: bytes) -> bool:
        """Take a call in the form that most clients write; false when the line is anything else."""
        if len(line) > self._plain_bytes:
            return False
        plain = read_plain_call(line, self._depth)
        if plain is None:
            return False
        identity, asked = plain
        self._call(asked, Answer(self, identity, None, "tools/call"))
        return True

    def _take(self, line: bytes) -> Iterator[None] | None:
        """Serve a line; a batch is served step by step by whoever iterates."""
        if not line or line.isspace() or self._take_plain(line):
            return None
        request = read_request(line, max_depth=self._depth, max_batch=self._limits.batch_requests)
        if isinstance(request, list):
            return self._take_batch(request)
        if isinstance(request, Request):
            self._serve(request, Answer(self, request.id, None, request.method))
        else:
            self._count(UNKNOWN, str(request.code))
            self.send(error_line(request.id, request.code, request.message))
        return None

    def _take_batch(self, requests: list[Request | Invalid]) -> Iterator[None]:
        batch = Batch(self, sum(each.id is not None for each in requests), self._most_unread)
        for each in requests:
            if isinstance(each, Invalid):
                self._count(UNKNOWN, str(each.code))
                batch.add(error_line(each.id, each.code, each.message))
            else:
                answer = Answer(self, each.id, batch, each.method)
                is_full = batch.size > self._limits.unread_bytes and each.id is not None
                (self._decline if is_full else self._serve)(each, answer)
            yield

    def _decline(self, request: Request, answer: Answer) -> None:
        """Refuse what the answers to a batch have no room for."""
        busy = Busy(_LONG_BATCH, outcome=Outcome.NOT_SENT)
        if request.method == "tools/call":
            self._fleet.counters.refuse(UNKNOWN, busy.data)
        answer.error(busy)

    def _serve(self, request: Request, answer: Answer) -> None:
        try:
            if request.method == "tools/call":
                self._call(self._asked(request), answer)
            elif request.method == "notifications/cancelled":
                self._cancel(request)
                answer.result(b"{}")
            else:
                self._handle(request, answer)
        except SupervisorError as exc:
            answer.error(exc)
        except Exception:  # noqa: BLE001 - the boundary: a bug in a handler costs one request
            self._bug(answer)

    def _asked(self, request: Request) -> CallRequest:
        try:
            return read_call(request.params)
        except SupervisorError as exc:
            self._fleet.counters.refuse(UNKNOWN, exc.data)
            raise

    def _call(self, asked: CallRequest, answer: Answer) -> None:
        if len(self._calls) >= self._most_calls:
            sentence = f"cannot have more than {self._most_calls} calls in flight"
            self._refuse(asked, answer, Busy(sentence, outcome=Outcome.NOT_SENT))
            return
        try:
            call = self._fleet.call(asked, answer, self)
        except SupervisorError as exc:
            self._refuse(asked, answer, exc)
        except Exception:  # noqa: BLE001 - the boundary: a bug on the way to a server costs one request
            self._bug(answer)
        else:
            if not answer.code:
                self._calls[answer] = call

    def _refuse(self, asked: CallRequest, answer: Answer, error: SupervisorError) -> None:
        self._fleet.counters.refuse(asked.name, error.data)
        tell(asked, answer, error)

    def _cancel(self, request: Request) -> None:
        identity = bytes(read_params(CancelParams, request.params).request_id)
        for answer, call in list(self._calls.items()):
            if answer.identity == identity:
                call.cancel("the client cancelled it")

    def _handle(self, request: Request, answer: Answer) -> None:
        method = find(request.method)
        params = read_params(method.params, request.params)
        result = method.handler(self._control.service, params, self)
        if not inspect.iscoroutine(result):
            answer.result(_encoder.encode(result))
        elif len(self._tasks) >= self._most_calls:
            result.close()
            raise Busy(f"cannot have more than {self._most_calls} requests waiting")
        else:
            task = asyncio.get_running_loop().create_task(self._finish(result, answer))
            self._tasks.add(task)
            task.add_done_callback(self._finished)
            # A client may leave before its task has begun; what was never awaited would be complained about.
            task.add_done_callback(lambda _: result.close())

    async def _finish(self, result: Coroutine[Any, Any, Any], answer: Answer) -> None:
        try:
            answer.result(_encoder.encode(await result))
        except SupervisorError as exc:
            answer.error(exc)
        except Exception:  # noqa: BLE001 - the boundary, as in _serve
            self._bug(answer)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._leave_if_done()

    def _bug(self, answer: Answer) -> None:
        logger.exception("cannot answer %s", answer.method)  # noqa: LOG004 - called by handlers of exceptions
        answer.error(SupervisorError(f"cannot answer {answer.method}: an internal error, see the log"))
