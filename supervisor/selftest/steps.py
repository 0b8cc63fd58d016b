"""The words that cases are written in: what is done to the bad server or the daemon, and what is looked at.

A step acts; a check says what is wrong. Both know the scene only.
"""

import operator
import os
import signal
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from supervisor.errors import SupervisorError
from supervisor.selftest.case import BAD, Answer, Check, Scene, Step
from supervisor.selftest.lab import PATIENCE, TooLate, outcome_of, until
from supervisor.surfaces.client import SyncClient
from supervisor.surfaces.exchange import request_line

MEMORY = "memory"

# What is done.


def call(tool: str, *, timeout: float | None = None, **arguments: Any) -> Step:
    """Call one of the bad server's tools, and keep the answer."""

    def act(scene: Scene) -> None:
        scene.answers.append(_answer(scene.lab.client, tool, timeout, arguments))

    return act


def _answer(client: SyncClient, tool: str, timeout: float | None, arguments: dict[str, Any]) -> Answer:
    try:
        result = client.call(f"{BAD}_{tool}", arguments, timeout=timeout)
    except SupervisorError as error:
        return Answer(outcome_of(error), str(error), error.data)
    outcome = "tool_error" if result.get("isError") else "ok"
    return Answer(outcome, str(result["content"][0].get("text")))


def during_calls(count: int, act: Step) -> Step:
    """Have so many calls under way that get no answer, act, and keep what they end in."""

    def both(scene: Scene) -> None:
        def one() -> Answer:
            with scene.lab.another_client() as client:
                return _answer(client, "hang", None, {})

        with ThreadPoolExecutor(count) as pool:
            waiting = [pool.submit(one) for _ in range(count)]
            until(lambda: _received(scene, "hang") == count)
            act(scene)
            scene.answers += [each.result(PATIENCE) for each in waiting]

    return both


def leave_during_a_call(scene: Scene) -> None:
    """Call, and hang up before the answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(scene.lab.socket))
        connection.sendall(request_line(1, "tools/call", {"name": f"{BAD}_hang", "arguments": {}}))
        until(lambda: _received(scene, "hang") == 1)


def note_pid(scene: Scene) -> None:
    """Remember the process of the bad server."""
    scene.first_pid = scene.lab.client.server(BAD)["pid"]


def note_memory(scene: Scene) -> None:
    """Remember how much memory the daemon holds."""
    scene.lab.begin_peak()
    scene.noted[MEMORY] = scene.lab.peak()


def hit(number: signal.Signals) -> Step:
    """Signal the bad server's process, as somebody else would."""

    def act(scene: Scene) -> None:
        pid = scene.lab.client.server(BAD)["pid"]
        if not isinstance(pid, int) or pid <= 1:
            raise TooLate(f"the bad server has no process: {pid!r}")
        os.kill(pid, number)

    return act


def order(verb: str, *, wait: bool = True) -> Step:
    """`start`, `stop` or `restart` the bad server, and usually wait until it is so."""

    def act(scene: Scene) -> None:
        scene.lab.client.request(f"servers/{verb}", {"server": BAD, "wait": wait})

    return act


def await_state(word: str) -> Step:
    def act(scene: Scene) -> None:
        until(lambda: scene.lab.client.server(BAD)["state"] == word)

    return act


def await_all(scene: Scene) -> None:
    """Wait for the daemon to answer and for its servers to come up or fail."""
    scene.lab.connect()
    until(scene.lab.settled)


def await_process(scene: Scene) -> None:
    """Wait until a server has been started."""
    until(scene.lab.journal)


def signal_daemon(*numbers: signal.Signals) -> Step:
    """Signal the daemon, once for each, and wait for its end."""

    def act(scene: Scene) -> None:
        for number in numbers:
            scene.lab.signal(number)
        until(lambda: scene.lab.exit_status() is not None)
        scene.lab.disconnect()

    return act


def start_daemon_again(scene: Scene) -> None:
    """Start the next daemon on the same socket, without the servers of the last one."""
    scene.lab.start({})


def write_config(text: str) -> Step:
    """Put this in the place of the configuration, and ask for a reload."""

    def act(scene: Scene) -> None:
        scene.lab.config.write_text(text, encoding="utf-8")
        try:
            scene.lab.client.request("supervisor/reload")
            scene.answers.append(Answer("ok", ""))
        except SupervisorError as error:
            scene.answers.append(Answer("refused", str(error)))

    return act


# What is looked at.


def state(word: str) -> Check:
    def check(scene: Scene) -> str | None:
        found = scene.lab.client.server(BAD)["state"]
        if _soon(lambda: scene.lab.client.server(BAD)["state"] == word):
            return None
        return f"the bad server is {found}, not {word}"

    return check


def reason(*words: str) -> Check:
    def check(scene: Scene) -> str | None:
        said = str(scene.lab.client.server(BAD)["reason"])
        missing = [word for word in words if word not in said]
        return f"the reason is {said!r}, without {', '.join(missing)}" if missing else None

    return check


def outcomes(*words: str) -> Check:
    """The calls ended so, one after the other."""

    def check(scene: Scene) -> str | None:
        found = [answer.outcome for answer in scene.answers]
        return None if found == list(words) else f"the calls ended as {found}, not as {list(words)}"

    return check


def texts(*wanted: str) -> Check:
    def check(scene: Scene) -> str | None:
        found = [answer.said for answer in scene.answers]
        return None if found == list(wanted) else f"the callers heard {found}, not {list(wanted)}"

    return check


def said(*words: str) -> Check:
    """The callers heard these words, among others, one after the other."""

    def check(scene: Scene) -> str | None:
        found = [answer.said for answer in scene.answers]
        fits = len(found) == len(words) and all(map(operator.contains, found, words))
        return None if fits else f"the callers heard {found}, without {list(words)}"

    return check


def told(key: str, value: Any) -> Check:
    """The last error knows how the server ended."""

    def check(scene: Scene) -> str | None:
        known: Mapping[str, Any] = scene.answers[-1].known.get("exit") or {}
        found = known.get(key)
        return None if found == value else f"the caller was told {key} {found!r}, not {value!r}"

    return check


def received(tool: str, count: int) -> Check:
    """The server itself says how often it was called."""

    def check(scene: Scene) -> str | None:
        if _soon(lambda: _received(scene, tool) == count):
            return None
        return f"the server received {_received(scene, tool)} calls of {tool}, not {count}"

    return check


def grown_at_most(size: int) -> Check:
    """The daemon never held so many bytes more than were noted."""

    def check(scene: Scene) -> str | None:
        grown = scene.lab.peak() - int(scene.noted[MEMORY])
        return (
            None if grown <= size else f"the daemon grew by {grown} bytes, and {size} would have been enough"
        )

    return check


def outlasted(scene: Scene) -> str | None:
    """The server, a witness, was asked to end, and had some time before it was made to."""
    noted = [key for line in scene.lab.journal() for key in line if key in ("heard", "outlasted")]
    return None if noted[:2] == ["heard", "outlasted"] else f"of SIGTERM the server noted {noted}"


def given_up(scene: Scene) -> str | None:
    """It was tried once, and nobody will try it again."""
    server = scene.lab.client.server(BAD)
    found = (server["phase"], server["run"], server["nextTry"])
    return None if found == ("unavailable", 1, None) else f"phase, run and next try are {found}"


def sample(name: str, value: float) -> Check:
    """What the metrics say."""

    def check(scene: Scene) -> str | None:
        found = scene.lab.metrics().get(name)
        return None if found == value else f"{name} is {found}, not {value:g}"

    return check


def problem(words: str) -> Check:
    """What status says of the configuration."""

    def check(scene: Scene) -> str | None:
        problems = scene.lab.client.request("supervisor/info")["problems"]
        return None if any(words in each for each in problems) else f"{words!r} is not in {problems}"

    return check


def notified(method: str) -> Check:
    def check(scene: Scene) -> str | None:
        heard = _soon(lambda: any(line.get("notified") == method for line in scene.lab.journal()))
        return None if heard else f"the server never got {method}"

    return check


def no_process(scene: Scene) -> str | None:
    """No process of the bad server is alive."""
    noted = {line["pid"] for line in scene.lab.journal() if "pid" in line}

    def left() -> set[int]:
        return noted & {pid for pid, _ in scene.lab.processes()}

    return None if _soon(lambda: not left()) else f"processes {sorted(left())} are left"


def same_process(scene: Scene) -> str | None:
    """The bad server is the process that it was."""
    pid = scene.lab.client.server(BAD)["pid"]
    return None if pid == scene.first_pid else f"process {scene.first_pid} has become {pid}"


def daemon_ended_well(scene: Scene) -> str | None:
    status = scene.lab.exit_status()
    return None if status == 0 else f"the daemon's exit status is {status}"


def nothing_alive(scene: Scene) -> str | None:
    if _soon(lambda: not scene.lab.processes()):
        return None
    return f"processes {sorted(pid for pid, _ in scene.lab.processes())} are left"


def _received(scene: Scene, tool: str) -> int:
    return sum(1 for line in scene.lab.journal() if line.get("called") == tool)


def _soon(look: Callable[[], object]) -> bool:
    try:
        until(look)
    except TooLate:
        return False
    return True
