"""The way of a call: from a tool's public name to the desk of its server.

Which server a name leads to is decided here, and who may call it. When the call is sent is the desk's.
"""

from collections.abc import Callable, Hashable, Mapping

from supervisor.core.agents import Agent, selection
from supervisor.core.catalog import Route
from supervisor.core.naming import beginning
from supervisor.errors import Outcome, RefusedByPolicy, UnknownTool
from supervisor.runtime.calls import Call, CallRequest, Reply
from supervisor.runtime.listing import Listing
from supervisor.runtime.member import Member


class Switchboard:
    """Hands each call to its server."""

    def __init__(self, members: Mapping[str, Member], listing: Listing, agents: Mapping[str, Agent]) -> None:
        self._members, self._listing, self.agents = members, listing, agents

    def selection(self, agent: str | None, tools: tuple[str, ...] | None) -> Callable[[str], bool] | None:
        """Which public names whoever asks may see and call; None for all.

        Raises:
            InvalidParams: there is no such agent.
        """
        return None if agent is None and tools is None else selection(self.agents, agent, tools)

    def route(self, name: str) -> Route:
        """Where a call of that public name goes.

        Raises:
            UnknownTool: no server has, or had, such a tool.
            RefusedByPolicy: there is one, and it may not be called.
            ServerUnavailable: there was one, and its server cannot answer now.
        """
        route = self._listing.find(name)
        if route is not None:
            return route
        hidden = self._listing.why_not(name)
        if hidden is not None:
            sentence = f"cannot call {name}: {hidden.reason}"
            raise RefusedByPolicy(sentence, server=hidden.server, outcome=Outcome.REJECTED)
        former = self._listing.former(name)
        if former is None:
            sentence = f"cannot find tool {name!r}; see mcp-supervisor tools"
            raise UnknownTool(sentence, outcome=Outcome.REJECTED)
        if not self._members[former.server].may_return:
            raise self._members[former.server].unavailable()
        return former

    def call(self, request: CallRequest, reply: Reply, client: Hashable) -> Call:
        """Hand a tool call to its server's desk; `reply` hears how it ends.

        Raises:
            SupervisorError: it was not sent, and why.
        """
        if request.agent is not None or request.tools is not None:
            self._check_selection(request)
        route = self._listing.current.get(request.name)
        if route is None or (route.approval == "confirm" and not request.approved):
            route = self._way(request)
        member = self._members[route.server]
        call = Call(member.desk, request, reply, client, route.tool_json)
        if not member.desk.submit(call):
            member.wake()
        return call

    def _way(self, request: CallRequest) -> Route:
        """Where a call may go; without a tool while its server has yet to list it."""
        try:
            route = self.route(request.name)
        except UnknownTool:
            member = self._might_list(request.name)
            if member is None:
                raise
            return Route(member.name, "", b"", "auto")
        _check_approval(request, route)
        return route

    def _check_selection(self, request: CallRequest) -> None:
        allowed = self.selection(request.agent, request.tools)
        if allowed is not None and not allowed(request.name):
            sentence = f"cannot call {request.name}: it is not among the tools of this agent"
            raise RefusedByPolicy(sentence, outcome=Outcome.REJECTED)

    def _might_list(self, name: str) -> Member | None:
        """The server that is still coming up for the first time and may have that tool."""
        for member in self._members.values():
            stem = beginning(member.prefix, self._listing.separator)
            if member.shelf is None and member.may_return and name.startswith(stem):
                return member
        return None

    def resolve(self, call: Call) -> bytes | None:
        """The tool of a call that came before it was listed; None when the call waits elsewhere from now on.

        Its name does not tell whose it is before somebody lists it: `a_b_c` may be of `a` or of `a_b`.
        """
        try:
            route = self.route(call.request.name)
        except UnknownTool:
            other = self._might_list(call.request.name)
            if other is None or other.name == call.server:
                raise
            other.desk.adopt([call])
            return None
        _check_approval(call.request, route)
        if route.server != call.server:
            self._members[route.server].desk.adopt([call])
            return None
        return route.tool_json

    def place(self, member: Member) -> None:
        """Give calls to a server that has just listed their tool, when they wait for another to do so."""
        for other in self._members.values():
            if other is not member and other.shelf is None and other.desk.queued:
                other.desk.hand_over(lambda call: self._listing.find(call.request.name) is not None)


def _check_approval(request: CallRequest, route: Route) -> None:
    if route.approval == "confirm" and not request.approved:
        sentence = f"cannot call {request.name} without approval; ask the user, then send approved: true"
        raise RefusedByPolicy(sentence, server=route.server, outcome=Outcome.REJECTED)
