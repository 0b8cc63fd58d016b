"""What the daemon shows of itself unasked: to systemd, and on its pages for Prometheus and health checks.

Brings together who counts, who is looked at and who is told. Decides nothing: the words are `core.health`'s,
the series `surfaces.metrics`', the protocol of systemd is `runtime.systemd`'s.
"""

import contextlib
import socket
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus

import anyio

from supervisor import logs
from supervisor.core.health import Condition, shortfalls, status_line
from supervisor.core.phases import Idle, Opened, Ready, Stopped, Unavailable
from supervisor.core.spec import HttpSettings
from supervisor.runtime.bus import News, ReloadEvent
from supervisor.runtime.fleet import Fleet
from supervisor.runtime.systemd import Notifier, feed_watchdog, lengthen_reloads, patiently
from supervisor.surfaces.control import Control
from supervisor.surfaces.http import Handler, HttpSurface, Request, Response
from supervisor.surfaces.metrics import Metrics, Reading, read

_PING = b'{"jsonrpc":"2.0","id":1,"method":"supervisor/ping"}\n'
_PONG_SECONDS = 2.0
_STATUS_PAUSE = 0.1
"""Seconds between two status lines, so that a fleet that starts does not flood systemd."""
_STOP_MARGIN = 10.0
"""Seconds that a stop may take beyond the longest grace of a server."""
_NO_RUN = -1


class Presence:
    """The daemon, seen from outside."""

    def __init__(self, control: Control, notifier: Notifier, watchdog: float | None) -> None:
        self._service, self._control = control.service, control
        self._notifier, self._watchdog = notifier, watchdog
        self._metrics = Metrics(self._read)
        self._news = anyio.Event()
        self._fleet.counters.last_reload = self._service.started_at

    @property
    def _fleet(self) -> Fleet:
        return self._service.fleet

    def _read(self) -> Reading:
        failures = {"log": logs.lost_lines(), "state": self._service.memory.failed_writes}
        return read(self._fleet, clients=len(self._control.clients), write_failures=failures)

    @contextlib.asynccontextmanager
    async def serving(self, settings: HttpSettings | bool) -> AsyncGenerator[None]:  # noqa: FBT001 - false is off
        """Have the pages served, if they are wanted, and everything counted.

        Raises:
            BadConfig: nobody can listen where the settings say.
        """
        leave = self._service.bus.subscribe(self._hear, lines=False)
        try:
            if isinstance(settings, HttpSettings):
                async with HttpSurface(settings, self._pages(), machine=socket.gethostname()).serving():
                    yield
            else:
                yield
        finally:
            leave()

    def _hear(self, news: News) -> None:
        self._news.set()
        if isinstance(news, ReloadEvent):
            self._fleet.counters.reloaded(usable=not news.refused, ok=news.ok, at=news.at)

    # What systemd hears.

    async def tell(self) -> None:
        """Tell systemd when we are ready, how we are, and that we are alive, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_ready)
            if self._notifier.heard:
                tasks.start_soon(self._tell_status)
            tasks.start_soon(lengthen_reloads, self._notifier)
            if self._watchdog is not None:
                tasks.start_soon(feed_watchdog, self._notifier, self._watchdog, self._prove_progress)

    def leave(self) -> None:
        """Tell systemd that we stop, and how long that may take."""
        graces = (member.actor.policy.stop_grace for member in self._fleet.members.values())
        self._notifier.stopping(max(graces, default=0.0) + _STOP_MARGIN)

    async def _tell_ready(self) -> None:
        await patiently(self._notifier, self._critical_servers_settled)
        self._tell_how_it_is()  # whoever waits for us to be ready reads it then
        self._notifier.ready()

    async def _critical_servers_settled(self) -> None:
        """Wait until each critical server is up, has failed for good, or is not wanted."""
        for member in list(self._fleet.members.values()):
            if member.enabled and member.entry is not None and member.entry.critical:
                await member.actor.reach(Ready, Idle, Unavailable, Stopped)

    async def _tell_status(self) -> None:
        while True:
            self._news = anyio.Event()
            self._tell_how_it_is()
            await anyio.sleep(_STATUS_PAUSE)
            await self._news.wait()

    def _tell_how_it_is(self) -> None:
        self._notifier.status(status_line(self.conditions()))

    async def _prove_progress(self) -> None:
        """Have every actor read a letter that changes nothing, as it speaks of a run that never was."""
        for member in list(self._fleet.members.values()):
            await member.actor.tell(Opened(_NO_RUN))

    # What the pages say.

    def _pages(self) -> Mapping[str, Handler]:
        return {
            "/metrics": self._show_metrics,
            "/healthz": self._show_health,
            "/readyz": self._show_readiness,
        }

    def conditions(self) -> list[Condition]:
        """How every server is."""
        return [
            Condition(name, member.word, member.reason, member.entry is not None and member.entry.critical)
            for name, member in sorted(self._fleet.members.items())
        ]

    async def _show_metrics(self, request: Request) -> Response:
        body, content_type = await self._metrics.scrape(request.headers.get("accept", ""))
        return Response(body, content_type=content_type)

    async def _show_health(self, _request: Request) -> Response:
        return Response(b"ok\n")

    async def _show_readiness(self, _request: Request) -> Response:
        reasons = list(shortfalls(self.conditions()))
        if not await self._socket_answers():
            reasons.insert(0, f"control socket: {self._service.socket} does not answer")
        if not reasons:
            return Response(b"ready\n")
        body = "not ready\n" + "".join(f"{reason}\n" for reason in reasons)
        return Response(body.encode(), HTTPStatus.SERVICE_UNAVAILABLE)

    async def _socket_answers(self) -> bool:
        with anyio.move_on_after(_PONG_SECONDS), contextlib.suppress(OSError, anyio.EndOfStream):
            async with await anyio.connect_unix(self._service.socket) as stream:
                await stream.send(_PING)
                return b'"result"' in await stream.receive()
        return False
