"""The runs of one server, made from what its entry says; one that cannot run gets a run that says why."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from supervisor.core.ringlog import RingLog
from supervisor.core.servers import BadServer, Endpoint, Launch, ServerSpec
from supervisor.runtime.conversation import Listener
from supervisor.runtime.httpsessions import Sessions
from supervisor.runtime.process import command_of
from supervisor.runtime.runs import HopelessRun
from supervisor.runtime.stdio import Host, Program, StdioRun
from supervisor.runtime.tuning import dialect_of

if TYPE_CHECKING:
    from supervisor.runtime.http import HttpRun


class Launcher(Struct, frozen=True):
    """Makes the runs of one server."""

    host: Host
    environ: Mapping[str, str]
    """The daemon's own; children get a small part of it."""
    log: RingLog
    max_line_bytes: int
    _sessions: Sessions = field(default_factory=Sessions)

    def new_run(
        self, number: int, spec: ServerSpec | BadServer, listener: Listener, *, doubtful: bool
    ) -> "StdioRun | HttpRun | HopelessRun":
        """The run of that number; a process that is doubtful waits until there is time for it."""
        match spec:
            case BadServer(problems=problems):
                return HopelessRun("bad config: " + "; ".join(map(str, problems)))
            case ServerSpec(trouble=str() as trouble):
                return HopelessRun(trouble)
            case ServerSpec(target=Launch() as launch):
                command = command_of(launch, self.environ)
                program = Program(spec.name, command, dialect_of(spec, self.max_line_bytes))
                return StdioRun(number, program, self.host, self.log, listener, doubtful=doubtful)
            case ServerSpec(target=Endpoint() as endpoint):
                return self._http_run(number, spec, endpoint, listener)
            case ServerSpec():
                return HopelessRun("disabled in its entry")
        assert_never(spec)

    def _http_run(self, number: int, spec: ServerSpec, endpoint: Endpoint, listener: Listener) -> "HttpRun":
        # A daemon without HTTP servers starts sooner and stays smaller for not knowing how to reach them.
        from supervisor.runtime.http import HttpRun, Remote
        from supervisor.runtime.httpdoor import Site

        headers = {name: text.value for name, text in endpoint.headers.items()}
        site = Site(spec.name, endpoint.url.value, headers, endpoint.ca_file)
        remote = Remote(site, dialect_of(spec, self.max_line_bytes), sessions=self._sessions)
        return HttpRun(number, remote, self.host.memory, self.log, listener)
