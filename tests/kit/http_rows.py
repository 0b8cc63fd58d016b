"""Cases of servers behind HTTP, in the words of the kit: what a remote can do to us.

The server is `tests/fake_servers/fake_http.py`, which nobody supervises: it is started for the case and ended
after it.
"""

from typing import Any

from supervisor.selftest.case import BAD, INNOCENTS, Case, Check, Scene, Step
from supervisor.selftest.lab import TooLate, until
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import await_state, call, outcomes, reason, said, state, texts
from tests.runtime.http_support import FAKE_HTTP, serving

HUGE = 100_000_000
"""Bytes that nobody should have to keep."""
SERVED = "http.log"
TOO_LONG = "longer than 1048576 bytes"


def behind_http(*options: object, **keys: Any) -> Step:
    """Have the bad server behind HTTP, with these faults; it is configured from now on."""

    def act(scene: Scene) -> None:
        (scene.lab.directory / SERVED).unlink(missing_ok=True)
        served = scene.closing.enter_context(serving(scene.lab.directory, *options))
        scene.lab.reload({**INNOCENTS, BAD: {"url": served.url, **keys}})

    return act


def faulty_once(fault: str, *options: object) -> Step:
    """The first call meets this fault, and no other does."""
    return behind_http("--fault", fault, "--times", 1, *options)


def heard(rpc: str, count: int) -> Check:
    """The server itself says how often it was asked."""

    def check(scene: Scene) -> str | None:
        lines = (scene.lab.directory / SERVED).read_text(encoding="utf-8").splitlines()
        found = sum(f'"rpc": "{rpc}"' in line for line in lines)
        return None if found == count else f"the server was asked {rpc} {found} times, not {count}"

    return check


def hung_up_on(scene: Scene) -> str | None:
    """The server saw that nobody waits for its answer any more."""
    served = scene.lab.directory / SERVED
    try:
        until(lambda: '"gave_up": "tools/call"' in served.read_text(encoding="utf-8"))
    except TooLate:
        return "the server never saw the end of the connection"
    return None


def slow(identity: str, fault: str, given: str) -> Case:
    """A call that would take for ever, and one after it."""
    return Case(
        identity,
        Promise.NO_HARM,
        given=given,
        when="it is called",
        then="the call times out, its connection is closed, and the next one is answered",
        servers={},
        acts=(faulty_once(fault), call("echo", timeout=0.5), call("echo", text="next")),
        checks=(outcomes("timed_out", "ok"), hung_up_on, state("connected")),
    )


def large(identity: str, fault: str, given: str) -> Case:
    """An answer that is too much, and one after it."""
    return Case(
        identity,
        Promise.NO_HARM,
        given=given,
        when="it is called",
        then="the answer is cut at the limit, and the next one is passed on",
        servers={},
        acts=(faulty_once(f"{fault}:{HUGE}"), call("echo"), call("echo", text="next")),
        checks=(said(TOO_LONG, "next"), state("connected")),
    )


ROWS = (
    Case(
        "H1",
        Promise.TRUTH,
        given="a remote refuses the connection",
        when="it is started",
        then="status says so, and when it is tried again",
        servers={BAD: {"url": "http://127.0.0.1:9/mcp"}},
        acts=(await_state("unavailable"),),
        checks=(reason("refused", "tried again"),),
    ),
    Case(
        "H2",
        Promise.TRUTH,
        given="a remote's name does not exist",
        when="it is started",
        then="status says so",
        servers={BAD: {"url": "http://nowhere.invalid/mcp"}},
        acts=(await_state("unavailable"),),
        checks=(reason("cannot be reached"),),
    ),
    Case(
        "H3",
        Promise.ACCOUNT,
        given="a remote forgets its session",
        when="it is called",
        then="it is greeted once more, and the call is executed once",
        servers={},
        acts=(faulty_once("forget", "--era", "legacy"), call("echo", text="once")),
        checks=(texts("once"), heard("initialize", 2), state("connected")),
    ),
    Case(
        "H4",
        Promise.TRUTH,
        given="a remote wants credentials",
        when="it is started",
        then="it is asked once, and status says what is missing",
        servers={},
        acts=(behind_http("--fault", "status:401", "--at", "any"), await_state("unavailable")),
        checks=(reason("needs credentials"), heard("server/discover", 1)),
    ),
    Case(
        "H5",
        Promise.ACCOUNT,
        given="a remote asks for a pause",
        when="it is called twice",
        then="neither call was executed, and the second was not even sent",
        servers={},
        acts=(behind_http("--fault", "status:429,retry-after=60"), call("echo"), call("echo")),
        checks=(outcomes("not_sent", "not_sent"), heard("tools/call", 1), state("connected")),
    ),
    slow("H7", "slow_headers", "a remote sends its headers byte by byte"),
    slow("H8", "slow_body", "a remote sends its answer byte by byte"),
    slow("H9", "silent", "a remote falls silent"),
    slow("H10", "endless:0", "a remote sends notifications without end"),
    large("H11", "huge_event", "a remote sends an event of 100 MB"),
    large("H15", "bomb", "a remote sends a little that unpacks to 100 MB"),
    Case(
        "H12",
        Promise.NO_HARM,
        given="a remote redirects to another host",
        when="it is called",
        then="the call is not sent there",
        servers={},
        acts=(faulty_once("redirect:307,http://127.0.0.2:9/mcp"), call("echo")),
        checks=(outcomes("not_sent"), said("redirects to http://127.0.0.2:9"), state("connected")),
    ),
    Case(
        "H14",
        Promise.NO_HARM,
        given="a remote has a certificate that is not trusted",
        when="it is started",
        then="nothing is asked of it",
        servers={},
        acts=(behind_http("--tls", FAKE_HTTP.with_name("localhost.pem")), await_state("unavailable")),
        checks=(reason("certificate is not trusted"), heard("server/discover", 0)),
    ),
    Case(
        "H17",
        Promise.ACCOUNT,
        given="a remote answers what others asked before what we asked",
        when="it is called",
        then="the caller hears its own answer",
        servers={},
        acts=(faulty_once("foreign_id"), call("echo", text="mine")),
        checks=(texts("mine"), state("connected")),
    ),
    Case(
        "K10",
        Promise.ACCOUNT,
        given="a call is under way at a remote",
        when="the remote dies",
        then="the outcome is unknown, the call is not sent again, and status says so",
        servers={},
        acts=(behind_http(), call("die"), await_state("unavailable")),
        checks=(outcomes("unknown"), heard("tools/call", 1)),
    ),
)
