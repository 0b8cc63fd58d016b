"""More cases than ship, in the same words: what takes longer, or squeezes the daemon."""

import os
import resource
import signal
import socket
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from supervisor.runtime.starts import PACE
from supervisor.selftest.case import BAD, Answer, Case, Check, Scene, Step
from supervisor.selftest.lab import hostile, until
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import (
    await_state,
    call,
    during_calls,
    given_up,
    hit,
    no_process,
    note_pid,
    order,
    outcomes,
    reason,
    received,
    said,
    same_process,
    state,
    texts,
)
from tests.e2e.support import fake

TICKS = os.sysconf("SC_CLK_TCK")
ROUNDED = 2 / TICKS
MEBI = 1 << 20
CROWD = 6
PESTERED = 100_000
"""Requests whose answers are more bytes than there is room for."""
TRIES = 3
DELAY = 0.6
"""Seconds; longer than a server that fails alone waits for its turn."""
RETRIED = {"policy": "on-failure", "delay": 0.2, "maxFailures": TRIES}
"""So soon that it is their turn that they wait for."""
APART = {"policy": "on-failure", "delay": DELAY, "maxFailures": TRIES}


def squeezed(act: Step) -> Step:
    """Act while the daemon has no descriptors to spare, then give them back."""

    def step(scene: Scene) -> None:
        soft, hard = resource.prlimit(scene.lab.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(scene.lab.pid, resource.RLIMIT_NOFILE, (len(scene.lab.descriptors()) + 1, hard))
        try:
            act(scene)
        finally:
            resource.prlimit(scene.lab.pid, resource.RLIMIT_NOFILE, (soft, hard))

    return step


def try_to_start(scene: Scene) -> None:
    scene.lab.client.request("servers/start", {"server": BAD, "wait": False})
    until(lambda: scene.lab.client.server(BAD)["state"] == "unavailable")
    scene.answers.append(Answer("not started", scene.lab.client.server(BAD)["reason"]))


def come_in_crowds(scene: Scene) -> None:
    """Connect more often than there are descriptors until somebody is sent away, stay a while, and leave."""
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(50)]
        for connection in crowd:
            connection.setblocking(False)
            connection.connect_ex(str(scene.lab.socket))
        until(lambda: any(map(sent_away, crowd)))
        note_work("crowded")(scene)


def sent_away(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def note_work(name: str) -> Step:
    """Remember how long the daemon is on a processor while a call waits in vain for its answer."""

    def act(scene: Scene) -> None:
        before = worked(scene)
        call("hang", timeout=0.5)(scene)
        scene.noted[name] = worked(scene) - before

    return act


def worked(scene: Scene) -> int:
    """Nanoseconds that the daemon has been on a processor."""
    account = Path(f"/proc/{scene.lab.pid}/schedstat").read_text(encoding="ascii")
    return int(account.split()[0])


def no_spin(scene: Scene) -> str | None:
    """A daemon that serves nobody but an innocent works a twentieth of the time, one that spins all of it."""
    quiet, crowded = scene.noted["quiet"], scene.noted["crowded"]
    return (
        None if crowded <= 4 * quiet else f"it worked {crowded / quiet:.1f} times as much as without a crowd"
    )


def cram(unit: str, count: int) -> Step:
    """Call for a result that has this so many times, and have it made into a text."""

    def act(scene: Scene) -> None:
        parts = {"before": "{", "unit": unit + ",", "count": count, "after": unit + "}"}
        result = scene.lab.client.call(f"{BAD}_cram", parts, flatten=True)
        scene.answers.append(Answer("ok", str(result["output"])))

    return act


def hang_up_often(scene: Scene) -> None:
    """Have the daemon read its files, which are as they were, a few times, and then again and again."""
    for _ in range(3):
        hang_up(scene)
    for _ in range(20):
        scene.lab.signal(signal.SIGHUP)


def hang_up(scene: Scene) -> None:
    before = reloads(scene)
    scene.lab.signal(signal.SIGHUP)
    until(lambda: reloads(scene) > before)


def reloads(scene: Scene) -> float:
    return scene.lab.metrics()['mcp_supervisor_config_reloads_total{result="ok"}']


def repeatedly(act: Step, count: int) -> Step:
    def step(scene: Scene) -> None:
        for _ in range(count):
            act(scene)

    return step


def settle(scene: Scene) -> None:
    """Wait until no server is on its way anywhere, and none is to be tried again."""
    moving = ("starting", "stopping", "killing", "backoff")
    until(lambda: not [each for each in scene.lab.client.servers() if each["phase"] in moving])


def starts_at_most(count: int) -> Check:
    def check(scene: Scene) -> str | None:
        started = sum(1 for line in scene.lab.journal() if "pid" in line)
        return (
            None
            if started <= count
            else f"{started} processes were started, and {count} would have been enough"
        )

    return check


def paced(scene: Scene) -> str | None:
    """It waited ever longer before its next try; the kernel knows when it was started."""
    left = {line["leaver"]: line["left"] for line in scene.lab.journal() if "leaver" in line}
    tries = sorted(
        (line["started"] / TICKS, left[line["pid"]]) for line in scene.lab.journal() if "pid" in line
    )
    waits = [then[0] - now[1] for now, then in pairwise(tries)]
    fits = waits[-2] >= DELAY - ROUNDED and waits[-1] >= 2 * DELAY - ROUNDED
    return None if fits else f"it waited only so many seconds: {waits}"


def one_by_one(scene: Scene) -> str | None:
    """There is a pause after each of the tries that are not the first ones of their servers."""
    tries = sorted(line["started"] / TICKS for line in scene.lab.journal() if "pid" in line)[CROWD:]
    took, least = tries[-1] - tries[0], PACE * (len(tries) - 2)
    return None if took >= least else f"{len(tries)} further tries came within {took:.1f} s, not {least:g} s"


def answered_in_part(scene: Scene) -> str | None:
    """The server got answers, and not more of them than there was room for."""
    got = scene.answers[1].said
    answered = got.isdecimal() and 0 < int(got) < PESTERED
    return None if answered else f"it says that so many of {PESTERED} requests were answered: {got}"


def crowd_given_up(scene: Scene) -> str | None:
    reasons = {each["reason"] for each in scene.lab.client.servers() if each["name"].startswith(BAD)}
    return None if all("crash loop" in each for each in reasons) else f"the reasons are {sorted(reasons)}"


ROWS = (
    Case(
        "C2",
        Promise.TRUTH,
        given="a command may not be executed",
        when="it is started",
        then="status says so, and it is not tried again",
        servers={BAD: {"command": "/etc/passwd", "restart": "always"}},
        acts=(await_state("unavailable"),),
        checks=(reason("/etc/passwd"), given_up),
    ),
    Case(
        "C4",
        Promise.TRUTH,
        given="a server exits with 0 at once",
        when="it is started",
        then="it does not count as connected",
        servers={BAD: fake("--exit-at", "spawn")},
        acts=(await_state("unavailable"),),
        checks=(no_process,),
    ),
    Case(
        "C22",
        Promise.NO_HARM,
        given="several servers crash at every start and want to be restarted",
        when="they are started",
        then="they are tried one by one, and each is given up after its budget",
        servers={
            f"{BAD}-{each}": hostile("exit-3", f"number-{each}", restart=RETRIED) for each in range(CROWD)
        },
        acts=(settle,),
        # One more for the first run: what dies before it said a word may have died of the probe.
        checks=(crowd_given_up, starts_at_most(CROWD * (TRIES + 1)), one_by_one),
    ),
    Case(
        "C22",
        Promise.NO_HARM,
        given="a server crashes at every start and wants to be restarted",
        when="it is started",
        then="it is tried ever more rarely, and given up after its budget",
        servers={BAD: hostile("exit-3", restart=APART)},
        acts=(settle,),
        checks=(crowd_given_up, starts_at_most(TRIES + 1), paced),
    ),
    Case(
        "C25",
        Promise.NO_HARM,
        given="a server opens descriptors and closes none",
        when="it goes on",
        then="the daemon has no more than before",
        acts=(call("hoard", count=400),),
        checks=(texts("mine"), state("connected")),
    ),
    Case(
        "C28",
        Promise.NO_HARM,
        given="a server asks without reading what it is answered",
        when="it is called",
        then="it is answered as far as there is room for that, and works on",
        acts=(call("pester", count=PESTERED), call("tally"), call("echo", text="after")),
        checks=(answered_in_part, outcomes("ok", "ok", "ok"), state("connected")),
    ),
    Case(
        "C29",
        Promise.NO_HARM,
        given="a server lists ten thousand tools",
        when="it is started",
        then="they are listed",
        servers={BAD: fake("--tools", 10_000, "--page-size", 1000)},
        acts=(await_state("connected"), call("echo_9999")),
        checks=(outcomes("ok"),),
    ),
    Case(
        "C31",
        Promise.NOTHING_LEFT,
        given="a server is in backoff",
        when="it is stopped",
        then="it is stopped, and not started again",
        servers={BAD: hostile("exit-3", restart={"policy": "always", "delay": 60, "maxDelay": 60})},
        acts=(await_state("unavailable"), order("stop")),
        checks=(state("stopped"), starts_at_most(2)),
    ),
    Case(
        "C9",
        Promise.NO_HARM,
        given="a server answers a call in broken UTF-8",
        when="it is called",
        then="the call fails and says why, and the server is left alone",
        servers={BAD: fake("--bad-utf8")},
        acts=(note_pid, call("echo")),
        checks=(said("not UTF-8"), state("connected"), same_process),
    ),
    Case(
        "C9",
        Promise.TRUTH,
        given="a server lists its tools in broken UTF-8",
        when="it is started",
        then="it is given up and says why",
        servers={BAD: fake("--bad-utf8", "--fault-at", "list")},
        acts=(await_state("unavailable"),),
        checks=(reason("UTF-8"), no_process),
    ),
    Case(
        "S16",
        Promise.NO_HARM,
        given="the daemon has no descriptors left",
        when="fifty clients connect and stay a while",
        then="those that there is no room for are sent away, nothing spins, and it serves as before",
        acts=(note_work("quiet"), squeezed(come_in_crowds), call("echo", text="and now")),
        checks=(outcomes("timed_out", "timed_out", "ok"), no_spin),
    ),
    Case(
        "D5",
        Promise.TRUTH,
        given="a server works",
        when="the daemon is hung up on again and again",
        then="it reads its files, and nothing is restarted",
        acts=(note_pid, hang_up_often, call("echo", text="here")),
        checks=(texts("here"), same_process),
    ),
    Case(
        "D7",
        Promise.NO_HARM,
        given="the daemon has no descriptors left",
        when="a server is to be started",
        then="it fails and says why, and works once there are some",
        acts=(order("stop"), squeezed(try_to_start), order("restart"), call("echo", text="at last")),
        checks=(said("Too many open files", "at last"), state("connected")),
    ),
    Case(
        "K4",
        Promise.NOTHING_LEFT,
        given="a server with a family",
        when="it is restarted ten times",
        then="nothing of the former ones is left",
        servers={BAD: hostile("escape", "family", stopGrace=0.05)},
        acts=(repeatedly(order("restart"), 10), order("stop")),
        checks=(no_process,),
    ),
    Case(
        "K5",
        Promise.ACCOUNT,
        given="calls are under way",
        when="their server is stopped by an operator",
        then="each ends as unknown, and none is sent again",
        acts=(during_calls(4, order("stop")),),
        checks=(outcomes(*["unknown"] * 4), received("hang", 4)),
    ),
    Case(
        "K6",
        Promise.ACCOUNT,
        given="calls are under way at a server that restarts",
        when="it is killed",
        then="each ends as unknown, none is sent again, and it comes back",
        servers={BAD: hostile(restart="on-failure")},
        acts=(during_calls(4, hit(signal.SIGKILL)), await_state("connected")),
        checks=(outcomes(*["unknown"] * 4), received("hang", 4)),
    ),
    Case(
        "K7",
        Promise.NO_HARM,
        given="a server writes to its standard error without a line break",
        when="it is called",
        then="it is answered",
        servers={BAD: fake()},
        acts=(call("stderr", text="x" * MEBI),),
        checks=(texts("said"),),
    ),
    Case(
        "K11",
        Promise.NO_HARM,
        given="a server's answer is hard to read: its content stands there tens of thousands of times",
        when="it is called, and the result is to be a text",
        then="it is answered",
        servers={BAD: fake()},
        acts=(cram('"content":[]', 75_000), call("echo")),
        checks=(said("(no output)", "{}"), state("connected")),
    ),
    Case(
        "K12",
        Promise.TRUTH,
        given="a server dies in the middle of its greeting",
        when="it is started",
        then="status says so, and nobody waits for it",
        servers={BAD: fake("--era", "legacy", "--half-line", "--fault-at", "initialize", "--exit-code", 4)},
        acts=(await_state("unavailable"),),
        checks=(reason("exited with code 4"),),
    ),
)
