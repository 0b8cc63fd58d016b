"""Lines in, lines out: reads requests, answers them, and runs slow calls in threads of their own.

The reader thread answers all that is quick, in order. A slow call, or a batch (protocol 2025-03-26), gets
a daemon thread, so that a busy tool delays nobody and none can keep the process alive. Lines are written
whole, under one lock, straight to the descriptor: a buffered stream could be found locked at exit.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread, current_thread
from typing import cast

from supervisor.demo.protocol import Refused, Request, RequestId, answer, read, refusal
from supervisor.demo.tool import CallCancelled, Control, JsonObject
from supervisor.errors import INVALID_REQUEST, PARSE_ERROR

BUSY = -32000
MOST_THREADS = 64
LAST_WORDS = 0.5
"""How long calls in flight may still answer after EOF; those that wait are cancelled at once."""

_Job = Callable[[], "JsonObject | None"]


class Server:
    """One client, served until it closes its end."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._writing = Lock()
        self._cancellations: dict[RequestId, Event] = {}
        self._threads: set[Thread] = set()

    def serve(self, lines: Iterable[bytes]) -> None:
        """Answer line after line; return at EOF."""
        for line in lines:
            if line.strip():
                self._take(line)
        self._finish()

    def _take(self, line: bytes) -> None:
        try:
            message = _decode(line)
            if isinstance(message, list):
                self._take_batch(cast("list[object]", message))
            elif request := read(message):
                self._take_request(request)
        except Refused as refused:
            self._send(refusal(refused.request_id, refused))

    def _take_request(self, request: Request) -> None:
        if not request.slow:
            self._send(self._job(request)())
            return
        self._check_room(request.id)
        job = self._job(request)
        self._spawn(lambda: self._send(job()))

    def _take_batch(self, batch: list[object]) -> None:
        if not batch:
            raise Refused(INVALID_REQUEST, "cannot take an empty batch")
        self._check_room(None)
        jobs = [self._job_in_batch(message) for message in batch]
        self._spawn(lambda: self._send([reply for job in jobs if (reply := job())]))

    def _job_in_batch(self, message: object) -> _Job:
        try:
            request = read(message)
        except Refused as refused:
            return partial(refusal, refused.request_id, refused)
        return self._job(request) if request else _nothing

    def _job(self, request: Request) -> _Job:
        """What will produce the answer; whether it is cancelled is watched from now on."""
        if request.id is None:
            self._notice(request)
            return _nothing
        cancelled = self._cancellations[request.id] = Event()
        control = Control(cancelled, partial(self._report, request.meta.get("progressToken")))
        return partial(self._answer, request, control)

    def _notice(self, notification: Request) -> None:
        if notification.method == "notifications/cancelled":
            request_id = notification.params.get("requestId")
            if isinstance(request_id, str | int) and (cancelled := self._cancellations.get(request_id)):
                cancelled.set()

    def _answer(self, request: Request, control: Control) -> JsonObject | None:
        try:
            return answer(request, control)
        except CallCancelled:
            return None
        finally:
            self._cancellations.pop(cast("RequestId", request.id), None)

    def _report(self, token: object, progress: float, total: float) -> None:
        if isinstance(token, str | int):
            params = {"progressToken": token, "progress": progress, "total": total}
            self._send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def _check_room(self, request_id: RequestId | None) -> None:
        if len(self._threads) >= MOST_THREADS:
            reason = f"cannot run more than {MOST_THREADS} slow calls at once; try again when one has ended"
            raise Refused(BUSY, reason, request_id=request_id)

    def _spawn(self, work: Callable[[], None]) -> None:
        thread = Thread(target=self._run, args=(work,), daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._threads.discard(current_thread())

    def _send(self, message: JsonObject | list[JsonObject] | None) -> None:
        if not message:
            return
        rest = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        with self._writing, suppress(BrokenPipeError):  # nobody reads any more; EOF follows
            while rest:
                rest = rest[os.write(self._output, rest) :]

    def _finish(self) -> None:
        for cancelled in list(self._cancellations.values()):
            cancelled.set()
        deadline = time.monotonic() + LAST_WORDS
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))


def _decode(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refused(PARSE_ERROR, f"cannot read the line as JSON: {error}") from error


def _nothing() -> None:
    return None
