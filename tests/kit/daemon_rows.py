"""Cases of the daemon's own surroundings, in the words of the kit."""

import signal
import socket
from pathlib import Path

from supervisor.selftest.case import BAD, Answer, Case, Scene, Step
from supervisor.selftest.lab import SETTINGS, Lab, hostile, until
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import (
    await_all,
    call,
    daemon_ended_well,
    nothing_alive,
    order,
    outcomes,
    said,
    signal_daemon,
    texts,
)
from tests.ports import reserved

FULL = "/dev/full"
SECOND = "second"


def start_without_room(scene: Scene) -> None:
    """Start the next daemon where neither its log nor its state can be written."""
    scene.lab.log = Path(FULL)
    scene.lab.environment["XDG_STATE_HOME"] = FULL
    with reserved() as port:
        scene.lab.settings = {**SETTINGS, "http": {"port": port}}
        scene.lab.start(scene.servers)


def note_failures(name: str) -> Step:
    """Remember how many writes have failed, of the log and of the state."""

    def act(scene: Scene) -> None:
        samples = scene.lab.metrics()
        for what in ("log", "state"):
            scene.noted[f"{name} {what}"] = samples[f'mcp_supervisor_write_failures_total{{what="{what}"}}']

    return act


def failures_counted(scene: Scene) -> str | None:
    """None where there is room; else those of the log, and one of the state for each order."""
    noted = scene.noted
    fits = (
        noted["roomy log"] == noted["roomy state"] == noted["full state"] == 0
        and 0 < noted["full log"] < noted["ordered log"]
        and noted["ordered state"] == 2
    )
    return None if fits else f"the failed writes are {noted}"


def start_a_second_whose_port_is_taken(scene: Scene) -> None:
    """Start another daemon elsewhere, and wait for its end."""
    home = scene.lab.directory / SECOND
    home.mkdir(exist_ok=True)
    second = Lab(home)
    second.log.unlink(missing_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        second.settings = {**SETTINGS, "http": {"port": taken.getsockname()[1]}}
        try:
            second.spawn({BAD: hostile()})
            until(lambda: second.exit_status() is not None)
            log = second.log.read_text(encoding="utf-8")
            scene.answers.append(Answer(str(second.exit_status()), log))
        finally:
            second.destroy()


def nothing_started(scene: Scene) -> str | None:
    journal = scene.lab.directory / SECOND / "journal"
    return "the second daemon started its server" if journal.exists() else None


ROWS = (
    Case(
        "D6",
        Promise.ACCOUNT,
        given="there is no room for the log and the state",
        when="the daemon starts, and is called and stopped",
        then="it starts, answers and ends as ever, and counts what could not be written",
        acts=(
            await_all,
            note_failures("roomy"),
            signal_daemon(signal.SIGTERM),
            start_without_room,
            note_failures("full"),
            order("disable"),
            order("enable"),
            note_failures("ordered"),
            call("echo", text="hello"),
            signal_daemon(signal.SIGTERM),
        ),
        checks=(texts("hello"), failures_counted, daemon_ended_well, nothing_alive),
        own_daemon=True,
    ),
    Case(
        "D13",
        Promise.TRUTH,
        given="the port for metrics is taken",
        when="a daemon starts",
        then="it ends and says why, and has started no server",
        servers={},
        acts=(start_a_second_whose_port_is_taken,),
        checks=(outcomes("78"), said("the port is taken"), nothing_started),
    ),
)
